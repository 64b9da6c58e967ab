//! How the blocking client implements a shared method: the thread waits for the answer.

/// One method of the blocking client; see `client::methods`.
macro_rules! method {
    (
        $(#[$attribute:meta])*
        request $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name(
            &$self,
            $($argument: $type),*
        ) -> Result<$output, $crate::error::RequestError> {
            let answer = $body?.wait();
            $crate::blocking::method::at_path!(answer, [$($argument)*] [$($argument)*])
        }
    };
    ($(#[$attribute:meta])* request $name:ident ($self:ident) $output:ty, $body:block) => {
        $(#[$attribute])*
        pub fn $name($self) -> Result<$output, $crate::error::RequestError> {
            $body?.wait()
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
        ) -> Result<$output, $crate::error::RequestError> {
            let (answer, watch) = $body?;
            let answer = answer.wait();
            let answer =
                $crate::blocking::method::at_path!(answer, [$($argument)*] [$($argument)*]);
            Ok(answer?.with(watch))
        }
    };
    (
        $(#[$attribute:meta])*
        wait $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name(&$self $(, $argument: $type)*) -> $output {
            $self.block_on(None, async $body)
        }
    };
    (
        $(#[$attribute:meta])*
        get $name:ident $parameters:tt $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name $parameters -> $output $body
    };
}

/// Adds the path to an error, if there is a parameter called `path`. The second list has the same
/// names as the first, for use in place of the caller's.
macro_rules! at_path {
    ($answer:expr, [path $($others:ident)*] [$path:ident $($same:ident)*]) => {
        $answer.map_err(|error| error.at($path))
    };
    ($answer:expr, $others:tt $same:tt) => {
        $answer
    };
}

pub(crate) use {at_path, method};
