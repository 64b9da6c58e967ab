//! What else follows from the declaration of a record: its owned form and its generators.

/// Declares the owned form of a record; one that borrows nothing owns itself.
///
/// It goes through the fields one by one, and says what becomes of the type of each.
#[cfg(feature = "alloc")]
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
            [$($done)* { $(#[$doc])* $field: $crate::owned::List<S::Text> }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* pub $field:ident: List<$lt:lifetime, $item:ident<$of:lifetime>>,
        $($rest:tt)*) => {
        owned_record!(@ $name
            [$($done)* { $(#[$doc])* $field: $crate::owned::List<$item<S>> }] $($rest)*);
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
        pub struct $name<S: $crate::owned::Storage = $crate::owned::Heap> {
            $( $(#[$doc])* pub $field: $type, )*
        }

        debugged_fields!($name [S: $crate::owned::Storage] $name<S> { $( $([$secret])? $field )* });
        encoded_fields!([S: $crate::owned::Storage] $name<S> { $($field)* });
        generated!($name { $($field)* });

        impl $crate::owned::Keep for super::$name<'_> {
            type Kept<S: $crate::owned::Storage> = $name<S>;

            fn keep<S: $crate::owned::Storage>(&self, storage: &S) -> $name<S> {
                $name { $( $field: $crate::owned::Keep::keep(&self.$field, storage), )* }
            }
        }
    };
}

/// Declares the owned form of an enum of records, going through its variants one by one.
#[cfg(feature = "alloc")]
macro_rules! owned_variants {
    ($name:ident { $($variants:tt)* }) => {
        owned_variants!(@ $name [] $($variants)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* $variant:ident($record:ident<$lt:lifetime>), $($rest:tt)*) => {
        owned_variants!(@ $name
            [$($done)* { $(#[$doc])* $variant($crate::owned::$record<S>) }] $($rest)*);
    };
    (@ $name:ident [$($done:tt)*]
        $(#[$doc:meta])* $variant:ident($record:ty), $($rest:tt)*) => {
        owned_variants!(@ $name [$($done)* { $(#[$doc])* $variant($record) }] $($rest)*);
    };
    (@ $name:ident [$({ $(#[$doc:meta])* $variant:ident($record:ty) })*]) => {
        #[doc = concat!("[`", stringify!($name), "`](crate::", stringify!($name), ") that borrows nothing.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name<S: $crate::owned::Storage = $crate::owned::Heap> {
            $( $(#[$doc])* $variant($record), )*
        }

        encoded_variants!([S: $crate::owned::Storage] $name<S> { $($variant)* });
        generated!($name [ $($variant)* ]);

        impl $crate::owned::Keep for super::$name<'_> {
            type Kept<S: $crate::owned::Storage> = $name<S>;

            fn keep<S: $crate::owned::Storage>(&self, storage: &S) -> $name<S> {
                match self {
                    $( Self::$variant(body) => {
                        $name::$variant($crate::owned::Keep::keep(body, storage))
                    } )*
                }
            }
        }
    };
}

/// What borrows nothing is its own owned form.
macro_rules! keeps_itself {
    ($($type:ty),*) => {$(
        #[cfg(feature = "alloc")]
        impl $crate::owned::Keep for $type {
            type Kept<S: $crate::owned::Storage> = Self;

            #[inline]
            fn keep<S: $crate::owned::Storage>(&self, _: &S) -> Self {
                *self
            }
        }
    )*};
}

/// A strategy for a field of a valid record, where its name says more than its type. The first arm
/// that matches counts; one that matches no field of any record does not compile.
#[cfg(feature = "proptest")]
#[deny(unused_macro_rules)]
macro_rules! valid {
    (CreateRequest.mode) => {
        $crate::generate::plain_mode()
    };
    (CreateTtlRequest.mode) => {
        $crate::generate::usually($crate::codes::CreateMode::PERSISTENT_WITH_TTL)
    };
    (CreateTtlRequest.ttl) => {
        $crate::generate::usually($crate::kind::Ttl::MAX.as_millis())
    };
    (Acl.perms) => {
        $crate::generate::usually($crate::codes::Perms::ALL)
    };
    (Id.scheme) => {
        $crate::generate::usually("world")
    };
    (Id.id) => {
        $crate::generate::usually(alloc::string::String::from("anyone"))
    };
    (AuthPacket.scheme) => {
        $crate::generate::usually("digest")
    };
    (AuthPacket.auth) => {
        $crate::generate::usually(b"user:password".to_vec())
    };
    (GetSaslRequest.token) => {
        $crate::generate::not_null($crate::generate::Generate::any($crate::generate::Sample::Valid))
    };
    (GetEphemeralsRequest.prefix_path) => {
        $crate::generate::not_null($crate::generate::path())
    };
    ($record:ident.path) => {
        $crate::generate::path()
    };
    ($record:ident.version) => {
        $crate::generate::version()
    };
    ($record:ident.acl) => {
        $crate::generate::acl()
    };
    ($record:ident.data_watches) => {
        $crate::generate::paths()
    };
    ($record:ident.exist_watches) => {
        $crate::generate::paths()
    };
    ($record:ident.child_watches) => {
        $crate::generate::paths()
    };
    ($record:ident.persistent_watches) => {
        $crate::generate::paths()
    };
    ($record:ident.persistent_recursive_watches) => {
        $crate::generate::paths()
    };
    ($record:ident.$field:ident) => {
        $crate::generate::Generate::any($crate::generate::Sample::Valid)
    };
}

/// Draws a field: a valid path if it is a path.
#[cfg(feature = "arbitrary")]
#[deny(unused_macro_rules)]
macro_rules! drawn {
    (path, $source:expr) => {
        $crate::generate::path_from($source)?
    };
    ($field:ident, $source:expr) => {
        $source.arbitrary()?
    };
}

/// Makes up values, for feature `proptest` and for feature `arbitrary`: of a struct, field by
/// field; of an enum, with every variant as likely as the others; of a number, often one that has a
/// name.
macro_rules! generated {
    ($name:ident { $($field:ident)* }) => {
        generated!(@proptest $name, sample, {
            use proptest::strategy::Strategy;

            ($(
                match sample {
                    $crate::generate::Sample::Valid => valid!($name.$field),
                    _ => $crate::generate::Generate::any(sample),
                },
            )*)
                .prop_map(|($($field,)*)| Self { $($field,)* })
                .boxed()
        });
        generated!(@arbitrary $name, source, {
            Ok(Self { $( $field: drawn!($field, source), )* })
        });
    };
    // What harms servers is made up on demand only.
    (Request [ $($variant:ident)* ]) => {
        generated!(@proptest Request, sample, {
            use proptest::strategy::Strategy;

            let any = generated!(@union sample $($variant)*);
            match sample {
                $crate::generate::Sample::Harmful => any.boxed(),
                _ => any.prop_map(Self::harmless).boxed(),
            }
        });
        generated!(@arbitrary Request, source, {
            generated!(@choice source $($variant)*).map(Self::harmless)
        });
    };
    ($name:ident [ $($variant:ident)* ]) => {
        generated!(@proptest $name, sample, {
            use proptest::strategy::Strategy;

            generated!(@union sample $($variant)*).boxed()
        });
        generated!(@arbitrary $name, source, generated!(@choice source $($variant)*));
    };
    (@union $sample:ident $($variant:ident)*) => {
        proptest::strategy::Union::new([
            $( $crate::generate::Generate::any($sample).prop_map(Self::$variant).boxed(), )*
        ])
    };
    (@choice $source:ident $($variant:ident)*) => {{
        let variants: &[fn(&mut arbitrary::Unstructured<'u>) -> arbitrary::Result<Self>] =
            &[ $( |source| source.arbitrary().map(Self::$variant), )* ];
        $source.choose(variants)?($source)
    }};
    ($name:ident($known:expr)) => {
        generated!(@proptest $name, _sample, $crate::generate::number($known, Self));
        generated!(@arbitrary $name, source, match source.ratio(3, 4)? {
            true => source.choose($known).copied(),
            false => source.arbitrary().map(Self),
        });
    };
    (@proptest $name:ident, $sample:ident, $strategy:expr) => {
        #[cfg(feature = "proptest")]
        impl $crate::generate::Generate for $name {
            fn any(
                $sample: $crate::generate::Sample,
            ) -> proptest::strategy::BoxedStrategy<Self> {
                $strategy
            }
        }

        #[cfg(feature = "proptest")]
        impl proptest::arbitrary::Arbitrary for $name {
            type Parameters = $crate::generate::Sample;
            type Strategy = proptest::strategy::BoxedStrategy<Self>;

            fn arbitrary_with(sample: $crate::generate::Sample) -> Self::Strategy {
                $crate::generate::Generate::any(sample)
            }
        }
    };
    (@arbitrary $name:ident, $source:ident, $value:expr) => {
        #[cfg(feature = "arbitrary")]
        impl<'u> arbitrary::Arbitrary<'u> for $name {
            fn arbitrary($source: &mut arbitrary::Unstructured<'u>) -> arbitrary::Result<Self> {
                $value
            }
        }
    };
}
