//! How a member is reached.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connect_string::Member;

/// A connection to a member, before anything has been said on it.
///
/// It is read in the client's task, and written there or in a method of the client that makes a
/// request, on whatever thread that is called; always one at a time, and always with the waker of
/// the client's task. Whoever uses the client waits meanwhile: it must not use the client itself,
/// and should not block.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// Makes connections: plain ones, encrypted ones, or pipes to a server within the process.
pub trait Connect: Send + 'static {
    /// What it makes.
    type Transport: Transport;

    /// Connects to `member`. Names are looked up anew each time. It may use the client that it
    /// connects, but must not wait for an answer, which comes behind the connection.
    fn connect(
        &mut self,
        member: &Member,
    ) -> Pin<Box<dyn Future<Output = io::Result<Self::Transport>> + Send>>;
}

/// Plain TCP, without delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnect;

impl Connect for TcpConnect {
    type Transport = TcpStream;

    fn connect(
        &mut self,
        member: &Member,
    ) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        let (host, port) = (member.host.clone(), member.port);
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}
