//! How records and numbers are declared: once, with everything else derived from the declaration.

/// Declares the records of a module: structs whose fields go over the wire in the order in which
/// they stand, and in a module `owned` the forms of them that borrow nothing.
///
/// The type of a field decides its bytes. A record that borrows from the frame names its lifetime.
/// Where a field is marked `[secret]`, `Debug` says that it is there, but not what it is.
///
/// | type | on the wire |
/// |---|---|
/// | `i32`, `i64`, `bool`, a number with a meaning | its bytes |
/// | `&'a str`, `Option<&'a str>` | a string; a nullable one |
/// | `Option<&'a [u8]>` | a buffer, nullable |
/// | `List<'a, _>` of strings or borrowing records | a vector, nullable |
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

/// Declares one record, where no owned form is needed.
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
        record!(@codec $lt, $name, [$name<$lt>] $($field: $type,)*);
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $( $(#[$doc:meta])* pub $field:ident: $type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $( $(#[$doc])* pub $field: $type, )* }
        record!(@codec 'a, $name, [$name] $($field: $type,)*);
        keeps_itself!($name);
        generated!($name { $($field)* });
    };
    (@codec $lt:lifetime, $name:ident, [$self:ty] $($field:ident: $type:ty,)*) => {
        encoded_fields!([$lt] $self { $($field)* });

        impl<$lt> $crate::wire::Decode<$lt> for $self {
            // A call for each record would copy its fields once more, which takes as long as
            // reading them.
            #[inline(always)]
            fn decode(
                reader: &mut $crate::wire::Reader<$lt>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self {
                    $( $field: $crate::wire::Decode::decode(reader).map_err(|error| {
                        error.within(&$crate::error::Place {
                            record: stringify!($name),
                            field: stringify!($field),
                        })
                    })?, )*
                })
            }
        }

        impl<$lt> $crate::explain::Explain<$lt> for $self {
            const TYPE: &'static str = stringify!($name);

            fn explain(
                reader: &mut $crate::wire::Reader<$lt>,
                path: &$crate::explain::Path<'_>,
                show: &mut $crate::explain::Show<'_>,
            ) -> Result<(), $crate::error::DecodeError> {
                $(
                    let place = &$crate::error::Place {
                        record: stringify!($name),
                        field: stringify!($field),
                    };
                    $crate::explain::field::<$type>(place, reader, path, show)?;
                )*
                Ok(())
            }
        }
    };
}

/// Shows a struct as its fields; of secret ones only how long they are.
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

/// Encodes a struct as its fields, one behind the other.
macro_rules! encoded_fields {
    ([$($generics:tt)*] $self:ty { $($field:ident)* }) => {
        impl<$($generics)*> $crate::wire::Encode for $self {
            #[inline]
            fn encoded_len(&self) -> usize {
                $crate::wire::total([
                    $( $crate::wire::Encode::encoded_len(&self.$field), )*
                ])
            }

            #[inline(always)]
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
            #[inline]
            fn encoded_len(&self) -> usize {
                match self {
                    $( Self::$variant(body) => $crate::wire::Encode::encoded_len(body), )*
                }
            }

            #[inline]
            fn encode<Out: $crate::sink::Sink + ?Sized>(&self, out: &mut Out) {
                match self {
                    $( Self::$variant(body) => $crate::wire::Encode::encode(body, out), )*
                }
            }
        }
    };
}

/// Declares a number with a meaning: a newtype with named constants that keeps unknown values.
macro_rules! wire_number {
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $( $(#[$doc:meta])* $constant:ident = $value:expr, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The number as it goes on the wire.
            pub i32,
        );

        impl $name {
            $( $(#[$doc])* pub const $constant: Self = Self($value); )*

            /// All that have a name.
            pub const KNOWN: &'static [Self] = &[ $( Self::$constant, )* ];

            /// The name of the number, if this crate knows it.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$constant => Some(stringify!($constant)), )*
                    _ => None,
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

        newtype_on_the_wire!($name(i32), $name::KNOWN);
    };
}

/// Gives a newtype the bytes of what it wraps.
macro_rules! newtype_on_the_wire {
    ($name:ident($inner:ty), $known:expr) => {
        impl $crate::wire::Encode for $name {
            #[inline]
            fn encoded_len(&self) -> usize {
                $crate::wire::Encode::encoded_len(&self.0)
            }

            #[inline]
            fn encode<S: $crate::sink::Sink + ?Sized>(&self, out: &mut S) {
                $crate::wire::Encode::encode(&self.0, out);
            }
        }

        impl<'a> $crate::wire::Decode<'a> for $name {
            #[inline]
            fn decode(
                reader: &mut $crate::wire::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                $crate::wire::Decode::decode(reader).map(Self)
            }
        }

        impl<'a> $crate::explain::Explain<'a> for $name {
            const TYPE: &'static str = <$inner as $crate::explain::Explain<'_>>::TYPE;

            fn explain(
                reader: &mut $crate::wire::Reader<'a>,
                path: &$crate::explain::Path<'_>,
                show: &mut $crate::explain::Show<'_>,
            ) -> Result<(), $crate::error::DecodeError> {
                $crate::explain::leaf(reader, path, show, |value: Self| value)
            }
        }

        keeps_itself!($name);
        generated!($name($known));
    };
}
