//! Finds what is around a mutant: cargo-mutants reports only what it replaces, such as an operator without its operands.

use std::collections::HashMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::offset_of;

/// How a mutant is selected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// A return at the start of a function.
    Body,
    /// A guard of a pattern that has none.
    Arm,
    /// Another operand of a guard.
    Guard,
    /// An `if` around an expression.
    Expression,
}

/// By what a mutant replaces: its genre, and where it begins.
type Places = HashMap<(&'static str, usize), (Range<usize>, Form)>;

struct Finder<'a> {
    source: &'a str,
    places: Places,
}

/// Returns what is around each possible mutant.
pub fn find(source: &str) -> syn::Result<Places> {
    let mut finder = Finder { source, places: HashMap::new() };
    finder.visit_file(&syn::parse_file(source)?);
    Ok(finder.places)
}

impl Finder<'_> {
    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let span = node.span();
        offset_of(self.source, span.start())..offset_of(self.source, span.end())
    }

    fn add(
        &mut self,
        genre: &'static str,
        replaced: &impl Spanned,
        around: Range<usize>,
        form: Form,
    ) {
        let start = self.range(replaced).start;
        self.places.insert((genre, start), (around, form));
    }

    fn add_body(&mut self, block: &syn::Block) {
        if let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) {
            let around = self.range(first).start..self.range(last).end;
            self.add("FnValue", first, around, Form::Body);
        }
    }
}

fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(node) => has_let(&node.left) || has_let(&node.right),
        _ => false,
    }
}

/// Leaves out what the compiler computes.
macro_rules! constants {
    ($($visit:ident($node:ident)),*) => {$(
        fn $visit(&mut self, _node: &'ast syn::$node) {}
    )*};
}

impl<'ast> Visit<'ast> for Finder<'_> {
    constants!(
        visit_item_const(ItemConst),
        visit_item_static(ItemStatic),
        visit_impl_item_const(ImplItemConst),
        visit_trait_item_const(TraitItemConst),
        visit_variant(Variant),
        visit_expr_const(ExprConst),
        visit_type(Type),
        visit_generic_argument(GenericArgument),
        visit_pat(Pat)
    );

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.add_body(&node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.add_body(&node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.add_body(block);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        // Only && joins a `let` to others.
        if !has_let(&node.left) && !has_let(&node.right) {
            self.add("BinaryOperator", &node.op, self.range(node), Form::Expression);
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        self.add("UnaryOperator", &node.op, self.range(node), Form::Expression);
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        for field in &node.fields {
            self.add("StructField", field, self.range(node), Form::Expression);
        }
        visit::visit_expr_struct(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        // The others are the last arm for some value.
        if node.arms.iter().any(|arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none()) {
            for arm in &node.arms {
                self.add("MatchArm", arm, self.range(&arm.pat), Form::Arm);
            }
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        if let Some((_, guard)) = &node.guard {
            self.add("MatchArmGuard", guard, self.range(guard), Form::Guard);
        }
        visit::visit_arm(self, node);
    }

    // The length is a constant.
    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }
}
