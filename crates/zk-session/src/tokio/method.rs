//! How the async client implements a shared method: as one that returns an answer, or as an async
//! method.

/// One method of the async client; see `client::methods`.
macro_rules! method {
    (
        $(#[$attribute:meta])*
        request $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name(&$self $(, $argument: $type)*) -> Answer<$output> {
            Answer::of($body)
        }
    };
    ($(#[$attribute:meta])* request $name:ident ($self:ident) $output:ty, $body:block) => {
        $(#[$attribute])*
        pub fn $name($self) -> Answer<$output> {
            Answer::of($body)
        }
    };
    (
        $(#[$attribute:meta])*
        watch $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name(
            &$self,
            $($argument: $type),*
        ) -> impl Future<Output = Result<$output, $crate::error::RequestError>> + Send + use<> {
            let begun = $crate::tokio::method::begun(|| $body);
            async move {
                let (answer, watch) = begun?;
                Ok(answer.await?.with(watch))
            }
        }
    };
    (
        $(#[$attribute:meta])*
        wait $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub async fn $name(&$self $(, $argument: $type)*) -> $output $body
    };
    (
        $(#[$attribute:meta])*
        get $name:ident $parameters:tt $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name $parameters -> $output $body
    };
}

pub(crate) use method;

use crate::error::RequestError;

/// Runs the body of a method, which may return early.
pub(crate) fn begun<T>(begin: impl FnOnce() -> Result<T, RequestError>) -> Result<T, RequestError> {
    begin()
}
