//! The macros that declare records and numbers once and derive everything else.

/// Declares the records of a module, and their owned forms in a module `owned`.
///
/// The order of the fields is their order on the wire, and the type of a field determines its
/// bytes. A record that borrows from the frame names its lifetime. `Debug` shows a `[secret]`
/// field only as its length.
///
/// | type | on the wire |
/// |---|---|
/// | `i32`, `i64`, `bool`, a number with a meaning | its bytes |
/// | `&'a str`, `Option<&'a str>` | a string; a nullable string |
/// | `Option<&'a [u8]>` | a nullable buffer |
/// | `List<'a, _>` of strings or borrowing records | a nullable vector |
/// | a record | its fields |
macro_rules! records {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
    )*) => {
        $( record! { $(#[$meta])* pub struct $name $(<$lt>)? { $($fields)* } } )*

        #[cfg(feature = "alloc")]
        pub(crate) mod owned {
            #[allow(unused_imports, reason = "not every module has numbers of its own")]
            use super::*;

            $( owned_record! { $name $(<$lt>)? { $($fields)* } } )*
        }
    };
}

/// Declares one record without an owned form.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident<$lt:lifetime> {
            $( $(#[$doc:meta])* $([$secret:ident])? pub $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name<$lt> { $( $(#[$doc])* pub $field: $type, )* }
        debugged_fields!($name [] $name<'_> { $( $([$secret])? $field )* });
        formatted_fields!($name $name<'_> { $( $([$secret])? $field )* });
        record!(@codec $lt, $name, [$name<$lt>] $($field: $type,)*);
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $( $(#[$doc:meta])* pub $field:ident: $type:ty, )* }
    ) => {
        $(#[$meta])*
        #[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $( $(#[$doc])* pub $field: $type, )* }
        record!(@codec 'a, $name, [$name] $($field: $type,)*);
        owned_as_itself!($name);
        generated!($name { $($field)* });
    };
    (@codec $lt:lifetime, $name:ident, [$self:ty] $($field:ident: $type:ty,)*) => {
        encoded_fields!([$lt] $self { $($field)* });

        impl<$lt> $crate::wire::Decode<$lt> for $self {
            // A call for each record would copy its fields once more, which takes as long as
            // reading them.
            #[cfg_attr(target_os = "none", inline)]
            #[cfg_attr(not(target_os = "none"), inline(always))]
            fn decode(
                reader: &mut $crate::wire::Reader<$lt>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self {
                    $( $field: $crate::wire::Decode::decode(reader).map_err(|error| {
                        error.within(&$crate::error::FieldName {
                            record: stringify!($name),
                            field: stringify!($field),
                        })
                    })?, )*
                })
            }
        }

        impl<$lt> $crate::field::Explain<$lt> for $self {
            const TYPE: &'static str = stringify!($name);
            const LAYOUT: &'static $crate::field::Layout = &$crate::field::Layout::Record {
                name: stringify!($name),
                fields: &[$(
                    $crate::field::FieldLayout {
                        name: stringify!($field),
                        layout: <$type as $crate::field::Explain<'_>>::LAYOUT,
                    },
                )*],
            };

            fn explain(
                reader: &mut $crate::wire::Reader<$lt>,
                path: &$crate::field::FieldPath<'_>,
                visit: &mut $crate::field::FieldVisitor<'_>,
            ) -> Result<(), $crate::error::DecodeError> {
                $(
                    let name = &$crate::error::FieldName {
                        record: stringify!($name),
                        field: stringify!($field),
                    };
                    $crate::field::field::<$type>(name, reader, path, visit)?;
                )*
                Ok(())
            }
        }
    };
}

/// Implements `Debug` for a struct. Of secret fields, it shows only the length.
macro_rules! debugged_fields {
    ($name:ident [$($generics:tt)*] $self:ty { $( $([$secret:ident])? $field:ident )* }) => {
        impl<$($generics)*> core::fmt::Debug for $self {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name))
                    $( .field(stringify!($field), debugged_fields!(@ $($secret)? self.$field)) )*
                    .finish()
            }
        }
    };
    (@ secret $value:expr) => { &$crate::wire::Secret(&$value) };
    (@ $value:expr) => { &$value };
}

/// Implements `defmt::Format` for a struct. Of secret fields, it shows nothing.
macro_rules! formatted_fields {
    ($name:ident $self:ty { $( $([$secret:ident])? $field:ident )* }) => {
        #[cfg(all(feature = "defmt", target_os = "none"))]
        impl defmt::Format for $self {
            fn format(&self, f: defmt::Formatter<'_>) {
                defmt::write!(f, "{=str} {{ ", stringify!($name));
                $( formatted_fields!(@ f, self, $($secret)? $field); )*
                defmt::write!(f, "}}");
            }
        }
    };
    (@ $f:ident, $self:ident, secret $field:ident) => {
        defmt::write!($f, "{=str}, ", stringify!($field))
    };
    (@ $f:ident, $self:ident, $field:ident) => {
        defmt::write!($f, "{=str}: {}, ", stringify!($field), $self.$field)
    };
}

/// Implements `defmt::Format` by `Debug`, for types that are too large or too rare for code of their own.
///
/// Hidden: for the crates of this project alone.
#[doc(hidden)]
#[macro_export]
macro_rules! formatted_by_debug {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        #[cfg(all(feature = "defmt", target_os = "none"))]
        impl<$($generics)*> defmt::Format for $type {
            fn format(&self, f: defmt::Formatter<'_>) {
                defmt::write!(f, "{}", defmt::Debug2Format(self));
            }
        }
    )*};
}

/// Encodes a struct as its fields in order.
macro_rules! encoded_fields {
    ([$($generics:tt)*] $self:ty { $($field:ident)* }) => {
        impl<$($generics)*> $crate::wire::Encode for $self {
            #[cfg_attr(target_os = "none", inline)]
            #[cfg_attr(not(target_os = "none"), inline(always))]
            fn encode<Out: $crate::sink::Sink + ?Sized>(&self, out: &mut Out) {
                $( $crate::wire::Encode::encode(&self.$field, out); )*
            }
        }
    };
}

/// Encodes an enum as the body of its variant.
macro_rules! encoded_variants {
    ([$($generics:tt)*] $self:ty { $($variant:ident)* }) => {
        impl<$($generics)*> $crate::wire::Encode for $self {
            // Inlined, each kind of sink would have it again in each place that encodes.
            #[inline(never)]
            fn encode<Out: $crate::sink::Sink + ?Sized>(&self, out: &mut Out) {
                match self {
                    $( Self::$variant(body) => $crate::wire::Encode::encode(body, out), )*
                }
            }
        }
    };
}

/// Declares a number with a meaning: a newtype with named constants that keeps unknown values. In
/// brackets behind a constant are other names, to search for.
macro_rules! wire_number {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$doc:meta])* $constant:ident $(($($alias:literal),+))? = $value:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The number on the wire.
            pub i32,
        );

        impl $name {
            $(
                $(#[$doc])*
                $($( #[doc(alias = $alias)] )+)?
                pub const $constant: Self = Self($value);
            )*

            /// All values that have a name.
            pub const KNOWN: &'static [Self] = &[ $( Self::$constant, )* ];

            /// Returns the name of the number, if this crate knows one.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$constant => Some(stringify!($constant)), )*
                    _ => None,
                }
            }
        }

        #[cfg(all(feature = "defmt", target_os = "none"))]
        impl defmt::Format for $name {
            fn format(&self, f: defmt::Formatter<'_>) {
                match self.name() {
                    Some(name) => defmt::write!(f, "{=str}", name),
                    None => defmt::write!(f, "{=i32}", self.0),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => core::fmt::Display::fmt(&self.0, f),
                }
            }
        }

        newtype_on_the_wire!(
            $name(i32), $name::KNOWN, &[$( ($value, stringify!($constant)), )*]
        );
    };
}

/// Declares an enum whose values have the names of their variants: errors above all. The content of
/// a `[from]` variant converts to it.
///
/// Hidden: for the crates of this project alone.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident {
            $(
                $(#[$doc:meta])*
                $([$from:ident])? $variant:ident $(($($inner:tt)*))? $({$($fields:tt)*})?,
            )*
        }
    ) => {
        #[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
        $(#[$meta])*
        pub enum $enum {
            $( $(#[$doc])* $variant $(($($inner)*))? $({$($fields)*})?, )*
        }

        impl $enum {
            /// All names, in the order of the variants.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($variant), )*];

            /// Returns the name of the variant, without what it holds. It takes no code of
            /// [`core::fmt`], and does not change with the text of `Display`.
            pub const fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant { .. } => stringify!($variant), )*
                }
            }
        }

        $( $crate::named!(@ $enum $([$from])? $variant $(($($inner)*))?); )*
    };
    (@ $enum:ident [from] $variant:ident($inner:ty)) => {
        impl From<$inner> for $enum {
            fn from(inner: $inner) -> Self {
                Self::$variant(inner)
            }
        }
    };
    (@ $($other:tt)*) => {};
}

/// Encodes and decodes a newtype as the value that it wraps. `$names` are the names of numbers.
macro_rules! newtype_on_the_wire {
    ($name:ident($inner:ty), $known:expr, $names:expr) => {
        impl $crate::wire::Encode for $name {
            #[inline]
            fn encode<S: $crate::sink::Sink + ?Sized>(&self, out: &mut S) {
                $crate::wire::Encode::encode(&self.0, out);
            }
        }

        impl<'a> $crate::wire::Decode<'a> for $name {
            #[cfg_attr(not(target_os = "none"), inline)]
            fn decode(
                reader: &mut $crate::wire::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                $crate::wire::Decode::decode(reader).map(Self)
            }
        }

        impl<'a> $crate::field::Explain<'a> for $name {
            const TYPE: &'static str = <$inner as $crate::field::Explain<'_>>::TYPE;
            const LAYOUT: &'static $crate::field::Layout = &$crate::field::Layout::Value {
                wire_type: Self::TYPE,
                is_nullable: false,
                names: $names,
            };

            fn explain(
                reader: &mut $crate::wire::Reader<'a>,
                path: &$crate::field::FieldPath<'_>,
                visit: &mut $crate::field::FieldVisitor<'_>,
            ) -> Result<(), $crate::error::DecodeError> {
                $crate::field::leaf(reader, path, visit, |value: Self| value)
            }
        }

        owned_as_itself!($name);
        generated!($name($known));
    };
}
