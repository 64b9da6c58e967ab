//! The blocking client and its lock for C. `include/zk.h` is generated from this.
//!
//! All that is `unsafe` is here: the rest of the project has none.

#![allow(clippy::missing_safety_doc, reason = "the header says it once, for all functions")]

mod callback;
mod error;
mod watching;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::Duration;

use zk_recipes::{Guard, Holding, Mutex};
use zk_session::blocking::Client;
use zk_session::proto::NodeKind;
use zk_session::{ClientBuilder, State};

use crate::callback::{Callback, refuse_in_callback};
pub use crate::error::zk_error;
use crate::error::{Failure, argument, returning};
pub use crate::watching::{OnEvent, ZkWatch};

/// A client with one session.
pub struct ZkClient(Client);

/// A lock that is held, or was until it was lost.
pub struct ZkLock {
    guard: Guard<Client>,
    lost: Option<Callback<extern "C" fn(*mut c_void)>>,
}

/// How to connect. All zero are the defaults, as is NULL instead of it.
#[repr(C)]
pub struct ZkOptions {
    /// 10 seconds by default. The servers have limits.
    pub session_timeout_ms: u32,
    /// How long to look for a server: 10 seconds by default.
    pub connect_timeout_ms: u32,
    /// How long each request may take: by default until the session ends.
    pub request_timeout_ms: u32,
    /// Such as "digest", with `auth` then "user:password".
    pub auth_scheme: *const c_char,
    pub auth: *const c_char,
    /// A file with certificates (PEM) by which to trust servers, for TLS. Needs the feature `tls`.
    pub ca_file: *const c_char,
    /// Files with the client's certificate and key (PEM), if the servers ask for it.
    pub certificate_file: *const c_char,
    pub key_file: *const c_char,
}

/// Called once if the lock is lost, in another thread: others may hold it from now on.
pub type OnLost = Option<extern "C" fn(context: *mut c_void)>;

/// Called for the name of each child.
pub type OnChild = Option<extern "C" fn(context: *mut c_void, name: *const c_char)>;

/// The node is deleted with the session.
pub const ZK_EPHEMERAL: c_int = 1;
/// The servers add a number to the name.
pub const ZK_SEQUENTIAL: c_int = 2;

/// Returns the text of the last error of this thread. It is valid until its next error.
#[unsafe(no_mangle)]
pub extern "C" fn zk_last_error() -> *const c_char {
    error::with_last(CStr::as_ptr)
}

/// Connects to one of `servers`, such as "zk1:2181,zk2:2181/chroot". Close the client at last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_connect(
    servers: *const c_char,
    options: *const ZkOptions,
    client: *mut *mut ZkClient,
) -> c_int {
    returning(|| {
        let mut builder = Client::builder(text(servers)?);
        let options = unsafe { options.as_ref() };
        if let Some(options) = options {
            let set = |ms: u32| (ms > 0).then(|| Duration::from_millis(ms.into()));
            if let Some(timeout) = set(options.session_timeout_ms) {
                builder = builder.session_timeout(timeout);
            }
            if let Some(timeout) = set(options.connect_timeout_ms) {
                builder = builder.connect_timeout(timeout);
            }
            if let Some(timeout) = set(options.request_timeout_ms) {
                builder = builder.request_timeout(timeout);
            }
            builder = with_tls(builder, options)?;
        }
        let connected = builder.connect()?;
        if let Some(ZkOptions { auth_scheme, auth, .. }) = options
            && !auth_scheme.is_null()
        {
            connected.add_auth(text(*auth_scheme)?, text(*auth)?.as_bytes()).wait()?;
        }
        give(client, ZkClient(connected))
    })
}

#[cfg(feature = "tls")]
fn with_tls(
    builder: ClientBuilder<Client>,
    options: &ZkOptions,
) -> Result<ClientBuilder<Client>, Failure> {
    let ZkOptions { ca_file, certificate_file, key_file, .. } = options;
    if ca_file.is_null() {
        return Ok(builder);
    }
    let read = |file| std::fs::read(text(file)?).map_err(argument);
    let tls = zk_session::TlsConfig::from_ca_pem(&read(*ca_file)?).map_err(argument)?;
    Ok(builder.tls(match certificate_file.is_null() {
        true => tls,
        false => tls
            .client_certificate(&read(*certificate_file)?, &read(*key_file)?)
            .map_err(argument)?,
    }))
}

#[cfg(not(feature = "tls"))]
fn with_tls(
    builder: ClientBuilder<Client>,
    options: &ZkOptions,
) -> Result<ClientBuilder<Client>, Failure> {
    match options.ca_file.is_null() {
        true => Ok(builder),
        false => Err(argument("this library was built without TLS")),
    }
}

/// Ends the session, which releases its locks and deletes its ephemeral nodes, and frees the client.
/// Stop its watches and release its locks before, or they report their end. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_close(client: *mut ZkClient) -> c_int {
    returning(|| {
        refuse_in_callback()?;
        if let Some(ZkClient(client)) = take(client) {
            client.close();
        }
        Ok(())
    })
}

/// Returns 1 while the client is connected to a quorum, 0 while it looks for a server, -1 at the end
/// of the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_is_connected(client: *const ZkClient) -> c_int {
    match reference(client).map(|client| client.0.state()) {
        Ok(State::Connected { .. }) => 1,
        Ok(State::Ended(_)) | Err(_) => -1,
        Ok(_) => 0,
    }
}

/// Reads the data of a node into `buffer`, as far as there is `room`. `length` is that of the data,
/// and `version` of the node; both may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_get(
    client: *const ZkClient,
    path: *const c_char,
    buffer: *mut u8,
    room: usize,
    length: *mut usize,
    version: *mut i32,
) -> c_int {
    returning(|| {
        let (data, stat) = reference(client)?.0.get_data(text(path)?).wait()?;
        fill(buffer, room, &data)?;
        put(length, data.len());
        put(version, stat.version);
        Ok(())
    })
}

/// Writes the data of a node, if it has `version`; -1 is any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_set(
    client: *const ZkClient,
    path: *const c_char,
    data: *const u8,
    length: usize,
    version: i32,
) -> c_int {
    returning(|| {
        let (client, data) = (reference(client)?, bytes(data, length)?);
        client.0.set_data(text(path)?, data, expected(version)).wait()?;
        Ok(())
    })
}

/// Creates a node. `flags` are 0, ZK_EPHEMERAL, ZK_SEQUENTIAL or both. Its path is written to
/// `created`, with NUL at its end, if that is not NULL: it is longer than `path` by 10 at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_create(
    client: *const ZkClient,
    path: *const c_char,
    data: *const u8,
    length: usize,
    flags: c_int,
    created: *mut c_char,
    room: usize,
) -> c_int {
    returning(|| {
        let kind = match flags {
            0 => NodeKind::Persistent,
            ZK_EPHEMERAL => NodeKind::Ephemeral,
            ZK_SEQUENTIAL => NodeKind::PersistentSequential,
            3 => NodeKind::EphemeralSequential,
            _ => return Err(argument("there are no such flags")),
        };
        let path = text(path)?;
        if !created.is_null() && room < path.len() + 11 {
            return Err(argument("`created` needs room for the path and 11 bytes"));
        }
        let (client, data) = (reference(client)?, bytes(data, length)?);
        let (name, _) = client.0.create(path, data, kind).wait()?;
        if created.is_null() {
            return Ok(());
        }
        let name = [name.as_bytes(), &[0]].concat();
        fill(created.cast(), room, &name)
    })
}

/// Deletes a node, if it has `version`; -1 is any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_delete(
    client: *const ZkClient,
    path: *const c_char,
    version: i32,
) -> c_int {
    returning(|| {
        reference(client)?.0.delete(text(path)?, expected(version)).wait()?;
        Ok(())
    })
}

/// Sets `version` to that of the node, or to -1 if it does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_exists(
    client: *const ZkClient,
    path: *const c_char,
    version: *mut i32,
) -> c_int {
    returning(|| {
        let stat = reference(client)?.0.exists(text(path)?).wait()?;
        put(version, stat.map_or(-1, |stat| stat.version));
        Ok(())
    })
}

/// Calls `on_child` for each child, in this thread, before it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_children(
    client: *const ZkClient,
    path: *const c_char,
    on_child: OnChild,
    context: *mut c_void,
) -> c_int {
    returning(|| {
        let on_child = on_child.ok_or_else(|| argument("a null pointer"))?;
        let (names, _) = reference(client)?.0.get_children(text(path)?).wait()?;
        for name in names {
            // No name contains NUL.
            let name = std::ffi::CString::new(name).unwrap_or_default();
            on_child(context, name.as_ptr());
        }
        Ok(())
    })
}

/// Reports each change of a node and of its list of children, or with `recursive` of all nodes below
/// it, in a thread of its own. Needs servers since 3.6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_watch(
    client: *const ZkClient,
    path: *const c_char,
    recursive: c_int,
    on_event: OnEvent,
    context: *mut c_void,
    watch: *mut *mut ZkWatch,
) -> c_int {
    returning(|| {
        let on_event = on_event.ok_or_else(|| argument("a null pointer"))?;
        let (client, path) = (&reference(client)?.0, text(path)?);
        let watching = match recursive {
            0 => client.watch(path).wait()?,
            _ => client.watch_recursively(path).wait()?,
        };
        let callback = Callback::new(on_event, context);
        give(watch, ZkWatch::start(watching, path, callback).map_err(argument)?)
    })
}

/// Ends a watch, and frees it. Its callback is not running any more, and is not called again. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_unwatch(watch: *mut ZkWatch) -> c_int {
    returning(|| {
        refuse_in_callback()?;
        if let Some(watch) = take(watch) {
            watch.stop();
        }
        Ok(())
    })
}

/// Acquires the lock at `path`, which Curator's InterProcessMutex shares. Waits for `timeout_ms`, or
/// as long as it takes if that is negative; 0 asks once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_lock_acquire(
    client: *const ZkClient,
    path: *const c_char,
    timeout_ms: i64,
    on_lost: OnLost,
    context: *mut c_void,
    lock: *mut *mut ZkLock,
) -> c_int {
    returning(|| {
        if lock.is_null() {
            return Err(argument("a null pointer"));
        }
        let attempt = Mutex::new(&reference(client)?.0, text(path)?)?.acquire();
        let guard = match u64::try_from(timeout_ms) {
            Ok(limit) => attempt.timeout(Duration::from_millis(limit)).wait()?,
            Err(_) => attempt.wait()?,
        };
        let lost = on_lost.map(|function| Callback::new(function, context));
        if let Some(lost) = lost.clone() {
            guard.on_lost(move |_| lost.call(|on_lost, context| on_lost(context)));
        }
        give(lock, ZkLock { guard, lost })
    })
}

/// Returns the fencing token: greater than that of each earlier holder. A resource that refuses
/// smaller ones than it has seen is safe from a holder that comes too late.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_lock_token(lock: *const ZkLock) -> i64 {
    reference(lock).map_or(-1, |lock| lock.guard.fencing_token().0)
}

/// Returns 1 while the lock is held, 0 while there is no connection to confirm it, -1 once it is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_lock_is_held(lock: *const ZkLock) -> c_int {
    match reference(lock).map(|lock| lock.guard.state()) {
        Ok(Holding::Held) => 1,
        Ok(Holding::Suspended) => 0,
        _ => -1,
    }
}

/// Releases the lock, and frees it, whatever it returns. Its callback is not running any more, and is
/// not called again. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zk_lock_release(lock: *mut ZkLock) -> c_int {
    returning(|| {
        refuse_in_callback()?;
        let Some(ZkLock { guard, lost }) = take(lock) else { return Ok(()) };
        if let Some(lost) = lost {
            lost.end();
        }
        Ok(guard.release().wait()?)
    })
}

fn reference<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| argument("a null pointer"))
}

fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    reference(text)?;
    // SAFETY: the caller's promise, and not null.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(argument)
}

fn expected(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

fn bytes<'a>(data: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(argument("a null pointer")),
        // SAFETY: the caller's promise, and not null.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

/// Copies what has room.
fn fill(buffer: *mut u8, room: usize, data: &[u8]) -> Result<(), Failure> {
    let length = data.len().min(room);
    if length > 0 {
        if buffer.is_null() {
            return Err(argument("a null pointer"));
        }
        // SAFETY: the caller's promise. What was just received is not in the caller's buffer.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer, length) };
    }
    Ok(())
}

fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise, and not null.
        unsafe { place.write(value) };
    }
}

fn give<T>(place: *mut *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(argument("a null pointer"));
    }
    put(place, Box::into_raw(Box::new(value)));
    Ok(())
}

fn take<T>(pointer: *mut T) -> Option<T> {
    // SAFETY: `give` has made it of a box, and the caller promises that it was not taken before.
    (!pointer.is_null()).then(|| *unsafe { Box::from_raw(pointer) })
}
