//! Any record, for features `proptest` and `arbitrary`.
//!
//! The declarations of records and numbers write their own impls; here is what fields are made of.

use alloc::vec::Vec;

use crate::owned::{List, Multi};

#[cfg(feature = "arbitrary")]
pub(crate) use sources::path_from;
#[cfg(feature = "proptest")]
pub use strategies::Sample;
#[cfg(feature = "proptest")]
pub(crate) use strategies::{
    Generate, acl, not_null, number, path, paths, plain_mode, usually, version,
};

/// Names of the nodes that valid paths lead to: few, so that requests meet the same nodes.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "n-", "\u{fc}\u{6f22}"];

#[cfg(feature = "proptest")]
mod strategies {
    use alloc::format;
    use alloc::string::String;
    use core::fmt::Debug;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::codes::CreateMode;
    use crate::owned::Acl;

    /// What made-up records are like: the parameter of
    /// [`any_with`](proptest::arbitrary::any_with).
    ///
    /// ```
    /// use proptest::prelude::*;
    /// use zk_proto::{Sample, owned::Request};
    ///
    /// let sensible = any::<Request>();
    /// let wild = any_with::<Request>(Sample::Wild);
    /// # drop((sensible, wild));
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Sample {
        /// Paths are valid, and few, so that requests meet the same nodes. Access control lists,
        /// modes, versions and times to live are mostly ones that a server takes.
        #[default]
        Valid,
        /// Any strings, numbers and lists. Still no request that
        /// [harms servers](crate::Request::harms_servers).
        Wild,
        /// Like [`Wild`](Self::Wild), and also requests that [harm
        /// servers](crate::Request::harms_servers). Use it only on servers that can be thrown away.
        Harmful,
    }

    /// Makes up values. Unlike [`Arbitrary`], it prefers the extremes of numbers, and keeps
    /// strings, buffers and lists short.
    pub(crate) trait Generate: Sized + Debug + 'static {
        /// Yields any value of this type.
        fn any(sample: Sample) -> BoxedStrategy<Self>;
    }

    pub(crate) fn plain_mode() -> BoxedStrategy<CreateMode> {
        const PLAIN: [CreateMode; 5] = [
            CreateMode::PERSISTENT,
            CreateMode::PERSISTENT,
            CreateMode::PERSISTENT_SEQUENTIAL,
            CreateMode::EPHEMERAL,
            CreateMode::EPHEMERAL_SEQUENTIAL,
        ];
        mostly(select(&PLAIN[..]))
    }

    pub(crate) fn version() -> BoxedStrategy<i32> {
        mostly(prop_oneof![4 => Just(-1), 1 => Just(0)])
    }

    pub(crate) fn acl() -> BoxedStrategy<List<Acl>> {
        vec(Acl::any(Sample::Valid), 1..3).prop_map(List::from).boxed()
    }

    pub(crate) fn paths() -> BoxedStrategy<List<String>> {
        vec(path(), 0..4).prop_map(List::from).boxed()
    }

    pub(crate) fn not_null<T: Generate>(values: BoxedStrategy<T>) -> BoxedStrategy<Option<T>> {
        values.prop_map(Some).boxed()
    }

    /// Nearly always this value.
    pub(crate) fn usually<T: Generate + Clone>(usual: impl Into<T>) -> BoxedStrategy<T> {
        mostly(Just(usual.into()))
    }

    /// Mostly one directly below the root, so that it exists or can be created.
    pub(crate) fn path() -> BoxedStrategy<String> {
        let name = || select(&NAMES[..]);
        prop_oneof![
            1 => Just(String::from("/")),
            8 => name().prop_map(|name| format!("/{name}")),
            3 => (name(), name()).prop_map(|(above, name)| format!("/{above}/{name}")),
        ]
        .boxed()
    }

    fn mostly<T: Generate>(usual: impl Strategy<Value = T> + 'static) -> BoxedStrategy<T> {
        prop_oneof![31 => usual, 1 => T::any(Sample::Wild)].boxed()
    }

    /// Three in four have a name.
    pub(crate) fn number<T, N>(known: &'static [T], new: fn(N) -> T) -> BoxedStrategy<T>
    where
        T: Generate + Clone,
        N: Generate,
    {
        prop_oneof![3 => select(known), 1 => N::any(Sample::Wild).prop_map(new)].boxed()
    }

    macro_rules! fields {
        ($($type:ty: $strategy:expr;)*) => {$(
            impl Generate for $type {
                fn any(_: Sample) -> BoxedStrategy<Self> {
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
        fn any(sample: Sample) -> BoxedStrategy<Self> {
            proptest::option::weighted(0.8, T::any(sample)).boxed()
        }
    }

    impl<T: Generate> Generate for List<T> {
        fn any(sample: Sample) -> BoxedStrategy<Self> {
            proptest::option::weighted(0.9, vec(T::any(sample), 0..5)).prop_map(Self).boxed()
        }
    }

    impl<T: Generate> Generate for Multi<T> {
        fn any(sample: Sample) -> BoxedStrategy<Self> {
            vec(T::any(sample), 0..5).prop_map(Self).boxed()
        }
    }

    /// As the fields of records have it.
    impl<T: Arbitrary<Parameters = Sample> + 'static> Arbitrary for Multi<T> {
        type Parameters = Sample;
        type Strategy = BoxedStrategy<Self>;

        fn arbitrary_with(sample: Sample) -> Self::Strategy {
            vec(any_with::<T>(sample), 0..5).prop_map(Self).boxed()
        }
    }
}

#[cfg(feature = "arbitrary")]
mod sources {
    use alloc::format;
    use alloc::string::String;

    use arbitrary::{Arbitrary, Result, Unstructured};

    use super::*;

    /// Draws a valid path.
    pub(crate) fn path_from(source: &mut Unstructured<'_>) -> Result<String> {
        Ok(match source.int_in_range(0..=11)? {
            0 => "/".into(),
            1..=8 => format!("/{}", source.choose(&NAMES)?),
            _ => format!("/{}/{}", source.choose(&NAMES)?, source.choose(&NAMES)?),
        })
    }

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
