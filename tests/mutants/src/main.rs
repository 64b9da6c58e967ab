//! Puts all mutants into one build, where `mutant_switch::on` selects one at run time.
//!
//! `zk-mutants FROM TO < mutants.json` reads mutants as `cargo mutants --list --json` prints them, each with an `id`. It
//! writes their files from one tree to the other. Then it prints `{"file": [[from, to, id, own], ...]}`: where each
//! mutant is in the new file, in bytes: its own text, and what is around it. It leaves out mutants of constants, which
//! cannot be selected at run time.

mod places;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;
use std::{env, fs, io};

use places::Form;
use proc_macro2::LineColumn;
use serde_json::{Value, json};

struct Mutant {
    id: u64,
    replacement: String,
    span: Range<usize>,
}

struct Place {
    span: Range<usize>,
    form: Form,
    mutants: Vec<Mutant>,
}

/// Where a line and a column are, both from 1, as a place in the text.
fn offset(source: &str, line: usize, column: usize) -> usize {
    let start: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
    source[start..].char_indices().nth(column - 1).map_or(source.len(), |(index, _)| start + index)
}

fn offset_of(source: &str, position: LineColumn) -> usize {
    offset(source, position.line, position.column + 1)
}

/// Writes a source with mutants.
struct Writer<'a> {
    source: &'a str,
    places: std::vec::IntoIter<Place>,
    out: String,
    regions: Vec<(usize, usize, u64, bool)>,
}

impl Writer<'_> {
    fn write(&mut self, span: Range<usize>) {
        let mut at = span.start;
        while let Some(place) = self.places.as_slice().first()
            && place.span.end <= span.end
        {
            let place = self.places.next().expect("it is there");
            self.out.push_str(&self.source[at..place.span.start]);
            at = place.span.end;
            self.write_place(place);
        }
        self.out.push_str(&self.source[at..span.end]);
    }

    fn write_place(&mut self, Place { span, form, mutants }: Place) {
        let from = self.out.len();
        let close = match form {
            Form::Body => {
                for mutant in &mutants {
                    self.own(mutant, "if ", "{ return ", &mutant.replacement, "; } ");
                }
                ""
            }
            Form::Expression => {
                self.out.push('(');
                for mutant in &mutants {
                    let before = &self.source[span.start..mutant.span.start];
                    let after = &self.source[mutant.span.end..span.end];
                    let text = format!("{before} {} {after}", mutant.replacement);
                    self.own(mutant, "if ", "{ ", &text, " } else ");
                }
                self.out.push_str("{ ");
                " })"
            }
            Form::Guard => {
                for mutant in &mutants {
                    match mutant.replacement.as_str() {
                        "true" => self.own(mutant, "", "", "", " || "),
                        _ => self.own(mutant, "!", "", "", " && "),
                    }
                }
                self.out.push('(');
                ")"
            }
            Form::Arm => "",
        };
        self.write(span);
        self.out.push_str(close);
        if let Form::Arm = form {
            for mutant in &mutants {
                self.own(mutant, " if !", "", "", "");
            }
        }
        let to = self.out.len();
        self.regions.extend(mutants.iter().map(|mutant| (from, to, mutant.id, false)));
    }

    /// Writes what belongs to one mutant.
    fn own(&mut self, mutant: &Mutant, before: &str, open: &str, text: &str, after: &str) {
        self.out.push_str(&format!("{before}::mutant_switch::on({}) {open}", mutant.id));
        let from = self.out.len();
        self.out.push_str(text);
        self.regions.push((from, self.out.len(), mutant.id, true));
        self.out.push_str(after);
    }
}

/// Returns the file with all mutants, and where they are.
fn mutate(
    source: &str,
    mutants: &[Value],
) -> Result<(String, Vec<(usize, usize, u64, bool)>), Box<dyn Error>> {
    let found = places::find(source)?;
    let mut places: BTreeMap<_, Place> = BTreeMap::new();
    for value in mutants {
        let at = |end: &str| {
            let number = |field: &str| value["span"][end][field].as_u64().unwrap_or(1) as usize;
            offset(source, number("line"), number("column"))
        };
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        let span = at("start")..at("end");
        let Some((place, form)) = found.get(&(text("genre"), span.start)) else {
            continue;
        };
        let mutant = Mutant {
            id: value["id"].as_u64().ok_or("a mutant without an id")?,
            replacement: text("replacement").to_owned(),
            span,
        };
        // Those around others first, and guards around their expressions.
        places
            .entry((place.start, Reverse(place.end), *form))
            .or_insert_with(|| Place { span: place.clone(), form: *form, mutants: Vec::new() })
            .mutants
            .push(mutant);
    }
    let places: Vec<_> = places.into_values().collect();
    let mut writer =
        Writer { source, places: places.into_iter(), out: String::new(), regions: Vec::new() };
    writer.write(0..source.len());
    Ok((writer.out, writer.regions))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("zk-mutants FROM TO < mutants.json".into());
    };
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for mutant in serde_json::from_reader::<_, Vec<Value>>(io::stdin())? {
        let file = mutant["file"].as_str().ok_or("a mutant without a file")?.to_owned();
        files.entry(file).or_default().push(mutant);
    }
    let mut regions = BTreeMap::new();
    for (file, mutants) in files {
        let source = fs::read_to_string(from.join(&file))?;
        let (out, found) = mutate(&source, &mutants).map_err(|error| format!("{file}: {error}"))?;
        let target = to.join(&file);
        // Cargo builds again what has a new time.
        if fs::read_to_string(&target).ok().as_deref() != Some(&out) {
            fs::create_dir_all(target.parent().ok_or("a file without a folder")?)?;
            fs::write(target, out)?;
        }
        regions.insert(file, found);
    }
    println!("{}", json!(regions));
    Ok(())
}
