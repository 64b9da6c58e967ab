//! Strategies of `proptest`.

mod replies;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::NAMES;
use crate::codes::CreateMode;
use crate::owned::list::List;
use crate::owned::multi::Multi;

/// The range of generated records: the parameter of
/// [`any_with`](proptest::arbitrary::any_with).
///
/// ```
/// use proptest::prelude::*;
/// use zk_proto::{GeneratorMode, owned::Request};
///
/// let valid = any::<Request>();
/// let arbitrary = any_with::<Request>(GeneratorMode::Arbitrary);
/// # drop((valid, arbitrary));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeneratorMode {
    /// Mostly valid records.
    ///
    /// Paths are valid and few, so that requests meet the same nodes. Servers accept most
    /// access control lists, modes, versions and times to live.
    #[default]
    Valid,
    /// Arbitrary strings, numbers and lists, but no request that
    /// [harms servers](crate::Request::harms_servers).
    Arbitrary,
    /// Arbitrary records, including requests that
    /// [harm servers](crate::Request::harms_servers).
    ///
    /// Use it only with servers whose data may be lost.
    Harmful,
}

/// Generates values. Unlike [`Arbitrary`], it prefers the extremes of numbers, and keeps
/// strings, buffers and lists short.
pub(crate) trait Generate: Sized + Debug + 'static {
    /// Returns a strategy for all values of this type.
    fn any(mode: GeneratorMode) -> BoxedStrategy<Self>;
}

/// Yields nearly always a mode of plain requests.
pub(crate) fn mode() -> BoxedStrategy<CreateMode> {
    use CreateMode as Mode;
    mostly(prop_oneof![
        2 => Just(Mode::PERSISTENT),
        1 => Just(Mode::PERSISTENT_SEQUENTIAL),
        1 => Just(Mode::EPHEMERAL),
        1 => Just(Mode::EPHEMERAL_SEQUENTIAL),
    ])
}

pub(crate) fn ttl_mode() -> BoxedStrategy<CreateMode> {
    usually(CreateMode::PERSISTENT_WITH_TTL)
}

/// Returns the strategy for a field that its type determines.
pub(crate) fn any_valid<T: Generate>() -> BoxedStrategy<T> {
    T::any(GeneratorMode::Valid)
}

pub(crate) fn version() -> BoxedStrategy<i32> {
    mostly(prop_oneof![4 => Just(-1), 1 => Just(0)])
}

pub(crate) fn acl<A: Generate>() -> BoxedStrategy<List<A>> {
    vec(any_valid::<A>(), 1..3).prop_map(List::from).boxed()
}

pub(crate) fn paths() -> BoxedStrategy<List<String>> {
    vec(path(), 0..4).prop_map(List::from).boxed()
}

/// Yields names of children, each at most once.
pub(crate) fn names() -> BoxedStrategy<List<String>> {
    let names = subsequence(&NAMES[..], 0..=NAMES.len());
    names.prop_map(|names| names.into_iter().map(String::from).collect::<Vec<_>>().into()).boxed()
}

pub(crate) fn not_null<T: Generate>(values: BoxedStrategy<T>) -> BoxedStrategy<Option<T>> {
    values.prop_map(Some).boxed()
}

/// Yields nearly always this value.
pub(crate) fn usually<T: Generate + Clone>(usual: impl Into<T>) -> BoxedStrategy<T> {
    mostly(Just(usual.into()))
}

/// Yields mostly paths directly below the root, so that the node exists or can be created.
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
    prop_oneof![31 => usual, 1 => T::any(GeneratorMode::Arbitrary)].boxed()
}

/// Yields a number with a name in three of four cases.
pub(crate) fn number<T, N>(known: &'static [T], new: fn(N) -> T) -> BoxedStrategy<T>
where
    T: Generate + Clone,
    N: Generate,
{
    prop_oneof![3 => select(known), 1 => N::any(GeneratorMode::Arbitrary).prop_map(new)].boxed()
}

macro_rules! fields {
    ($($type:ty: $strategy:expr;)*) => {$(
        impl Generate for $type {
            fn any(_: GeneratorMode) -> BoxedStrategy<Self> {
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

/// Yields null in one of five cases.
impl<T: Generate> Generate for Option<T> {
    fn any(mode: GeneratorMode) -> BoxedStrategy<Self> {
        proptest::option::weighted(0.8, T::any(mode)).boxed()
    }
}

impl<T: Generate> Generate for List<T> {
    fn any(mode: GeneratorMode) -> BoxedStrategy<Self> {
        proptest::option::weighted(0.9, vec(T::any(mode), 0..5)).prop_map(Self).boxed()
    }
}

impl<T: Generate> Generate for Multi<T> {
    fn any(mode: GeneratorMode) -> BoxedStrategy<Self> {
        vec(T::any(mode), 0..5).prop_map(Self).boxed()
    }
}

/// Generates items as a field of a record does.
impl<T: Arbitrary<Parameters = GeneratorMode> + 'static> Arbitrary for Multi<T> {
    type Parameters = GeneratorMode;
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with(mode: GeneratorMode) -> Self::Strategy {
        vec(any_with::<T>(mode), 0..5).prop_map(Self).boxed()
    }
}

/// Picks the strategy for a field of a valid record whose type alone does not determine it.
///
/// The first arm that matches counts. An arm that matches no field of any record does not compile.
#[deny(unused_macro_rules)]
#[rustfmt::skip]
macro_rules! valid {
    (CreateRequest.mode) => { $crate::generate::strategies::mode() };
    (CreateTtlRequest.mode) => { $crate::generate::strategies::ttl_mode() };
    (CreateTtlRequest.ttl) => { $crate::generate::strategies::usually($crate::ttl::Ttl::MAX.as_millis()) };
    (Acl.perms) => { $crate::generate::strategies::usually($crate::codes::Perms::ALL) };
    (Id.scheme) => { $crate::generate::strategies::usually("world") };
    (Id.id) => { $crate::generate::strategies::usually(alloc::string::String::from("anyone")) };
    (AuthPacket.scheme) => { $crate::generate::strategies::usually("digest") };
    (AuthPacket.auth) => { $crate::generate::strategies::usually(b"user:password".to_vec()) };
    (GetSaslRequest.token) => { $crate::generate::strategies::not_null($crate::generate::strategies::any_valid()) };
    (GetEphemeralsRequest.prefix_path) => { $crate::generate::strategies::not_null($crate::generate::strategies::path()) };
    (GetEphemeralsResponse.ephemerals) => { $crate::generate::strategies::paths() };
    (Stat.version) => { $crate::generate::strategies::any_valid() };
    ($record:ident.children) => { $crate::generate::strategies::names() };
    ($record:ident.path) => { $crate::generate::strategies::path() };
    ($record:ident.version) => { $crate::generate::strategies::version() };
    ($record:ident.acl) => { $crate::generate::strategies::acl() };
    ($record:ident.data_watches) => { $crate::generate::strategies::paths() };
    ($record:ident.exist_watches) => { $crate::generate::strategies::paths() };
    ($record:ident.child_watches) => { $crate::generate::strategies::paths() };
    ($record:ident.persistent_watches) => { $crate::generate::strategies::paths() };
    ($record:ident.persistent_recursive_watches) => { $crate::generate::strategies::paths() };
    ($record:ident.$field:ident) => { $crate::generate::strategies::any_valid() };
}

pub(crate) use valid;
