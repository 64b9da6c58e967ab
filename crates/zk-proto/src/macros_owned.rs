//! The macros that derive owned forms and generators from the declaration of a record. Without the
//! feature `alloc`, they derive nothing.

/// Declares the owned form of a record. A record that borrows nothing is its own owned form.
///
/// It maps the fields one by one, by their types.
macro_rules! owned_record {
    ($name:ident { $($fields:tt)* }) => {};
    ($name:ident<$lt:lifetime> { $($fields:tt)* }) => {
        owned_record!(@ $name [] $($fields)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: &$lt:lifetime str, $($rest:tt)*) => {
        owned_record!(@ $name [$($done)* { $(#[$doc])* $field: S::Text }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: Option<&$lt:lifetime str>, $($rest:tt)*) => {
        owned_record!(@ $name [$($done)* { $(#[$doc])* $field: S::NullableText }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: Option<&$lt:lifetime [u8]>, $($rest:tt)*) => {
        owned_record!(@ $name [$($done)* { $(#[$doc])* $field: S::Buffer }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* [secret] pub $field:ident: Option<&$lt:lifetime [u8]>, $($rest:tt)*) => {
        owned_record!(@ $name [$($done)* { $(#[$doc])* [secret] $field: S::Buffer }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: List<$lt:lifetime, &$of:lifetime str>, $($rest:tt)*) => {
        owned_record!(@ $name
            [$($done)* { $(#[$doc])* $field: $crate::owned::list::List<S::Text> }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: List<$lt:lifetime, $item:ident<$of:lifetime>>,
        $($rest:tt)*) => {
        owned_record!(@ $name
            [$($done)* { $(#[$doc])* $field: $crate::owned::list::List<$item<S>> }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: $record:ident<$lt:lifetime>, $($rest:tt)*) => {
        owned_record!(@ $name [$($done)* { $(#[$doc])* $field: $record<S> }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: $type:ty, $($rest:tt)*) => {
        owned_record!(@ $name [$($done)* { $(#[$doc])* $field: $type }] $($rest)*);
    };
    (@ $name:ident [$({ $(#[$doc:meta])* $([$secret:ident])? $field:ident: $type:ty })*]) => {
        #[doc = concat!("[`", stringify!($name), "`](crate::", stringify!($name), ") that borrows nothing.")]
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name<S: $crate::owned::storage::Storage = $crate::owned::storage::Heap> {
            $( $(#[$doc])* pub $field: $type, )*
        }

        debugged_fields!($name [S: $crate::owned::storage::Storage] $name<S> { $( $([$secret])? $field )* });
        encoded_fields!([S: $crate::owned::storage::Storage] $name<S> { $($field)* });
        formatted_by_debug!([S: $crate::owned::storage::Storage] $name<S>;);
        generated!($name { $($field)* });

        impl $crate::owned::storage::IntoOwned for super::$name<'_> {
            type Owned<S: $crate::owned::storage::Storage> = $name<S>;

            fn to_owned_in<S: $crate::owned::storage::Storage>(&self, storage: &S) -> $name<S> {
                $name { $( $field: $crate::owned::storage::IntoOwned::to_owned_in(&self.$field, storage), )* }
            }
        }
    };
}

/// Declares the owned form of an enum of records, variant by variant.
///
/// The owned records must be in a module `bodies` where the macro is used.
macro_rules! owned_variants {
    ($name:ident { $($variants:tt)* }) => {
        owned_variants!(@ $name [] $($variants)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* $variant:ident($record:ident<$lt:lifetime>), $($rest:tt)*) => {
        owned_variants!(@ $name
            [$($done)* { $(#[$doc])* $variant(bodies::$record<S>) }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* $variant:ident($record:ty), $($rest:tt)*) => {
        owned_variants!(@ $name [$($done)* { $(#[$doc])* $variant($record) }] $($rest)*);
    };
    (@ $name:ident [$({ $(#[$doc:meta])* $variant:ident($record:ty) })*]) => {
        #[doc = concat!("[`", stringify!($name), "`](crate::", stringify!($name), ") that borrows nothing.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name<S: $crate::owned::storage::Storage = $crate::owned::storage::Heap> {
            $( $(#[$doc])* $variant($record), )*
        }

        encoded_variants!([S: $crate::owned::storage::Storage] $name<S> { $($variant)* });
        formatted_by_debug!([S: $crate::owned::storage::Storage + core::fmt::Debug] $name<S>;);
        generated!($name [ $($variant)* ]);

        impl $crate::owned::storage::IntoOwned for super::$name<'_> {
            type Owned<S: $crate::owned::storage::Storage> = $name<S>;

            fn to_owned_in<S: $crate::owned::storage::Storage>(&self, storage: &S) -> $name<S> {
                match self {
                    $( Self::$variant(body) => {
                        $name::$variant($crate::owned::storage::IntoOwned::to_owned_in(body, storage))
                    } )*
                }
            }
        }
    };
}

/// Makes a type that borrows nothing its own owned form.
macro_rules! owned_as_itself {
    ($($type:ty),*) => {$(
        #[cfg(feature = "alloc")]
        impl $crate::owned::storage::IntoOwned for $type {
            type Owned<S: $crate::owned::storage::Storage> = Self;

            #[inline]
            fn to_owned_in<S: $crate::owned::storage::Storage>(&self, _: &S) -> Self {
                *self
            }
        }
    )*};
}

/// Implements the generators of the features `proptest` and `arbitrary`.
///
/// A struct is generated field by field. All variants of an enum are equally likely. A number
/// often has a name.
macro_rules! generated {
    ($name:ident { $($field:ident)* }) => {
        generated!(@proptest $name, mode, {
            use proptest::strategy::Strategy;

            ($(
                match mode {
                    $crate::generate::strategies::GeneratorMode::Valid => {
                        $crate::generate::strategies::valid!($name.$field)
                    }
                    _ => $crate::generate::strategies::Generate::any(mode),
                },
            )*)
                .prop_map(|($($field,)*)| Self { $($field,)* })
                .boxed()
        });
        generated!(@arbitrary $name, source, {
            Ok(Self { $( $field: generated!(@draw $field, source), )* })
        });
    };
    // Requests that harm servers are generated only on demand.
    (Request [ $($variant:ident)* ]) => {
        generated!(@proptest Request, mode, {
            use proptest::strategy::Strategy;

            let any = generated!(@union mode $($variant)*);
            match mode {
                $crate::generate::strategies::GeneratorMode::Harmful => any.boxed(),
                _ => any.prop_map(Self::harmless).boxed(),
            }
        });
        generated!(@arbitrary Request, source, {
            generated!(@choice source $($variant)*).map(Self::harmless)
        });
    };
    ($name:ident [ $($variant:ident)* ]) => {
        generated!(@proptest $name, mode, {
            use proptest::strategy::Strategy;

            generated!(@union mode $($variant)*).boxed()
        });
        generated!(@arbitrary $name, source, generated!(@choice source $($variant)*));
    };
    (@union $mode:ident $($variant:ident)*) => {
        proptest::strategy::Union::new([
            $(
                $crate::generate::strategies::Generate::any($mode)
                    .prop_map(Self::$variant)
                    .boxed(),
            )*
        ])
    };
    (@choice $source:ident $($variant:ident)*) => {{
        let variants: &[fn(&mut arbitrary::Unstructured<'u>) -> arbitrary::Result<Self>] =
            &[ $( |source| source.arbitrary().map(Self::$variant), )* ];
        $source.choose(variants)?($source)
    }};
    ($name:ident($known:expr)) => {
        generated!(@proptest $name, _sample, $crate::generate::strategies::number($known, Self));
        generated!(@arbitrary $name, source, match source.ratio(3, 4)? {
            true => source.choose($known).copied(),
            false => source.arbitrary().map(Self),
        });
    };
    (@proptest $name:ident, $mode:ident, $strategy:expr) => {
        #[cfg(feature = "proptest")]
        const _: () = {
        impl $crate::generate::strategies::Generate for $name {
            fn any(
                $mode: $crate::generate::strategies::GeneratorMode,
            ) -> proptest::strategy::BoxedStrategy<Self> {
                $strategy
            }
        }

        impl proptest::arbitrary::Arbitrary for $name {
            type Parameters = $crate::generate::strategies::GeneratorMode;
            type Strategy = proptest::strategy::BoxedStrategy<Self>;

            fn arbitrary_with(mode: $crate::generate::strategies::GeneratorMode) -> Self::Strategy {
                $crate::generate::strategies::Generate::any(mode)
            }
        }
        };
    };
    // A path is drawn valid, and so are the names of children.
    (@draw path, $source:expr) => { $crate::generate::sources::path_from($source)? };
    (@draw children, $source:expr) => { $crate::generate::sources::names_from($source)? };
    (@draw ephemerals, $source:expr) => { $crate::generate::sources::paths_from($source)? };
    (@draw $field:ident, $source:expr) => { $source.arbitrary()? };
    (@arbitrary $name:ident, $source:ident, $value:expr) => {
        #[cfg(feature = "arbitrary")]
        impl<'u> arbitrary::Arbitrary<'u> for $name {
            fn arbitrary($source: &mut arbitrary::Unstructured<'u>) -> arbitrary::Result<Self> {
                $value
            }
        }
    };
}
