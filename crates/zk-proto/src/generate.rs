//! Any record, for features `proptest` and `arbitrary`.
//!
//! The declarations of records and numbers write their own impls; here is what fields are made of.

use alloc::vec::Vec;

use crate::owned::{List, Multi};

#[cfg(feature = "proptest")]
pub(crate) use strategies::{Generate, number};

#[cfg(feature = "proptest")]
mod strategies {
    use alloc::string::String;
    use core::fmt::Debug;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Yields any value of a field. Unlike [`Arbitrary`], it prefers the extremes of numbers, and
    /// keeps strings, buffers and lists short.
    pub(crate) trait Generate: Sized + Debug + 'static {
        fn any() -> BoxedStrategy<Self>;
    }

    /// Three in four have a name.
    pub(crate) fn number<T, N>(known: &'static [T], new: fn(N) -> T) -> BoxedStrategy<T>
    where
        T: Generate + Clone,
        N: Generate,
    {
        prop_oneof![3 => select(known), 1 => N::any().prop_map(new)].boxed()
    }

    macro_rules! fields {
        ($($type:ty: $strategy:expr;)*) => {$(
            impl Generate for $type {
                fn any() -> BoxedStrategy<Self> {
                    $strategy.boxed()
                }
            }
        )*};
    }

    fields! {
        (): Just(());
        bool: any::<bool>();
        i32: prop_oneof![any::<i32>(), Just(0), Just(-1), Just(Self::MAX), Just(Self::MIN)];
        i64: prop_oneof![any::<i64>(), Just(0), Just(-1), Just(Self::MAX), Just(Self::MIN)];
        String: vec(any::<char>(), 0..12).prop_map(Self::from_iter);
        Vec<u8>: vec(any::<u8>(), 0..24);
    }

    /// Null is one in five.
    impl<T: Generate> Generate for Option<T> {
        fn any() -> BoxedStrategy<Self> {
            proptest::option::weighted(0.8, T::any()).boxed()
        }
    }

    impl<T: Generate> Generate for List<T> {
        fn any() -> BoxedStrategy<Self> {
            proptest::option::weighted(0.9, vec(T::any(), 0..5)).prop_map(Self).boxed()
        }
    }

    impl<T: Generate> Generate for Multi<T> {
        fn any() -> BoxedStrategy<Self> {
            vec(T::any(), 0..5).prop_map(Self).boxed()
        }
    }

    /// As the fields of records have it.
    impl<T: Arbitrary + 'static> Arbitrary for Multi<T> {
        type Parameters = ();
        type Strategy = BoxedStrategy<Self>;

        fn arbitrary_with((): ()) -> Self::Strategy {
            vec(any::<T>(), 0..5).prop_map(Self).boxed()
        }
    }
}

#[cfg(feature = "arbitrary")]
mod sources {
    use arbitrary::{Arbitrary, Result, Unstructured};

    use super::*;

    impl<'u, T: Arbitrary<'u>> Arbitrary<'u> for List<T> {
        fn arbitrary(source: &mut Unstructured<'u>) -> Result<Self> {
            Option::<Vec<T>>::arbitrary(source).map(Self)
        }
    }

    impl<'u, T: Arbitrary<'u>> Arbitrary<'u> for Multi<T> {
        fn arbitrary(source: &mut Unstructured<'u>) -> Result<Self> {
            Vec::<T>::arbitrary(source).map(Self)
        }
    }
}
