//! Builds the programs, and measures them.

use std::env;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zk_testkit::skipped::skip;
use zk_testkit::suite::long_or_skip;

/// A program for a board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) target: &'static str,
    /// The features of `tests/firmware/Cargo.toml`, separated by commas.
    pub(super) features: &'static str,
}

/// The lock on a Cortex-M3.
pub(super) const LOCK: Program =
    Program { name: "lock", target: "thumbv7m-none-eabi", features: "lock" };

/// The read/write lock on a Cortex-M3.
pub(super) const READ_WRITE_LOCK: Program = Program { features: "read-write", ..LOCK };

/// The same, with all features.
pub(super) const FULL_LOCK: Program = Program { features: "read-write,zk-recipes/full", ..LOCK };

/// The lock on a Cortex-M0.
pub(super) const LOCK_WITHOUT_ATOMICS: Program = Program { target: CODEC.target, ..LOCK };

/// The lock on a RISC-V processor.
pub(super) const LOCK_ON_RISC_V: Program =
    Program { target: "riscv32imac-unknown-none-elf", ..LOCK };

/// The lock on a RISC-V processor without atomic operations.
pub(super) const LOCK_ON_RISC_V_WITHOUT_ATOMICS: Program =
    Program { target: "riscv32imc-unknown-none-elf", ..LOCK };

/// The lock in WebAssembly.
pub(super) const LOCK_IN_NODE: Program = Program { target: "wasm32-unknown-unknown", ..LOCK };

/// The codec alone, on a Cortex-M0.
pub(super) const CODEC: Program =
    Program { name: "codec", target: "thumbv6m-none-eabi", features: "" };

impl Program {
    /// Builds the program. Without QEMU or the target, and without `ZK_LONG` and
    /// `ZK_FIRMWARE=require`, prints that the test is skipped.
    ///
    /// # Panics
    ///
    /// If the program does not build, which includes that it does not fit. With
    /// `ZK_FIRMWARE=require`, also if something is missing.
    pub(super) fn build_or_skip(self) -> Option<PathBuf> {
        let is_required = env::var("ZK_FIRMWARE").is_ok_and(|it| it == "require");
        if !is_required && !long_or_skip() {
            return None;
        }
        match self.missing() {
            None => Some(self.build()),
            Some(missing) if is_required => panic!("ZK_FIRMWARE=require, but {missing}"),
            Some(missing) => {
                skip(missing);
                None
            }
        }
    }

    /// Returns what runs the program, and its arguments for the board.
    fn runner(self) -> (&'static str, &'static [&'static str]) {
        const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/firmware/boards/node/run.mjs");
        match self.target.split('-').next() {
            Some("thumbv6m") => ("qemu-system-arm", &["-machine", "microbit"]),
            Some("thumbv7m") => ("qemu-system-arm", &["-machine", "lm3s6965evb"]),
            Some("wasm32") => ("node", &[NODE]),
            _ => ("qemu-system-riscv32", &["-machine", "virt", "-bios", "none"]),
        }
    }

    /// Returns the command that runs an image of the program, whose UART connects to this address. The
    /// monitor of QEMU is a socket at this path.
    pub(super) fn run(self, image: &Path, uart: SocketAddr, monitor: &Path) -> Command {
        let (runner, board) = self.runner();
        let mut command = Command::new(runner);
        command.args(board);
        if runner == "node" {
            let uart = TcpStream::connect(uart).expect("the modem listens");
            uart.set_nonblocking(true).expect("a socket");
            command.arg(image).stdin(OwnedFd::from(uart));
        } else {
            command.args(["-display", "none", "-serial"]).arg(format!("tcp:{uart}"));
            command.arg("-monitor").arg(format!("unix:{},server,nowait", monitor.display()));
            command.args(["-semihosting-config", "enable=on,target=native", "-kernel"]).arg(image);
            command.stdin(Stdio::null());
        }
        command
    }

    fn missing(self) -> Option<String> {
        let (runner, _) = self.runner();
        let mut version = Command::new(runner);
        if !version.arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success()) {
            return Some(format!("`{runner}` does not run"));
        }
        let mut rustc = Command::new("rustc");
        let output = rustc.args(["--print", "target-libdir", "--target", self.target]).output();
        let folder = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
        let is_there = folder.is_some_and(|folder| Path::new(folder.trim()).is_dir());
        (!is_there).then(|| format!("Rust has no target {}: use `rustup target add`", self.target))
    }

    fn build(self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = root.join("../target/firmware");
        fs::create_dir_all(&folder).expect("a folder that can be written");
        // Cargo gives a program one file, whatever its features are: another test, in this process
        // or another one, would replace it before it is copied.
        let building = File::create(folder.join("building")).expect("a file that can be written");
        building.lock().expect("a file that can be locked");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--profile", "firmware"]);
        cargo.args(["--bin", self.name, "--target", self.target, "--features", self.features]);
        cargo.arg("--manifest-path").arg(root.join("firmware/Cargo.toml"));
        cargo.arg("--target-dir").arg(&folder);
        // Flags for the host would change the sizes.
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        assert!(cargo.status().expect("cargo runs").success(), "{self:?} does not build");
        let extension = if self.target.starts_with("wasm32") { "wasm" } else { "" };
        let built = folder.join(self.target).join("firmware").join(self.name);
        let features = self.features.replace('/', ".");
        let image = folder.join(format!("{}-{}-{features}", self.name, self.target));
        // Renamed into place, so that a board that starts meanwhile reads a whole image.
        let copy = folder.join("copy");
        fs::copy(built.with_extension(extension), &copy).expect("a built program");
        fs::rename(&copy, &image).expect("a folder that can be written");
        image
    }
}

/// The sizes of a program in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) flash: usize,
    /// Static variables, the heap among them, but no stack.
    pub(super) ram: usize,
}

impl Size {
    /// Where the memory of a Cortex-M3 begins.
    pub(super) const RAM_START: usize = 0x2000_0000;

    /// Reads the segments of a 32-bit ELF file.
    pub(super) fn of(image: &Path) -> Self {
        const LOAD: usize = 1;
        let file = fs::read(image).expect("an image");
        let number = |at: usize, length: usize| {
            let bytes = file[at..at + length].iter().rev();
            bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
        };
        let (table, entry, count) = (number(28, 4), number(42, 2), number(44, 2));
        let mut size = Self { flash: 0, ram: 0 };
        for segment in (0..count).map(|index| table + index * entry) {
            if number(segment, 4) == LOAD {
                size.flash += number(segment + 16, 4);
                if number(segment + 8, 4) >= Self::RAM_START {
                    size.ram += number(segment + 20, 4);
                }
            }
        }
        size
    }
}
