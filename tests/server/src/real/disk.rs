//! A disk in memory, which can be full. Needs Linux and root.

use core::mem;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run;

/// The size in bytes of a disk that is not full.
const SIZE: u64 = 4 << 30;
/// The least that is left of a full disk, in bytes: a transaction is cut off somewhere.
const REST: u64 = 4 << 10;
/// The most that is left, if the server writes while the disk is filled.
const MAX_REST: u64 = 16 << 20;

/// A folder with a file system of its own. Dropping the disk unmounts it.
#[derive(Debug)]
pub(super) struct Disk(PathBuf);

impl Disk {
    pub(super) fn mount(folder: &Path) -> io::Result<Self> {
        let options = format!("size={SIZE}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "zookeeper"]).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }

    /// Fills the disk, until it is [extended](Self::extend).
    pub(super) fn fill(&self) -> io::Result<()> {
        let mut rest = REST;
        loop {
            let used = self.used()?;
            match self.resize(used + rest) {
                // The server may have written more meanwhile.
                Err(_) if rest < MAX_REST => rest *= 2,
                result => return result,
            }
        }
    }

    fn used(&self) -> io::Result<u64> {
        let used = run(Command::new("df").args(["--block-size=1", "--output=used"]).arg(&self.0))?;
        let used = used.lines().last().and_then(|line| line.trim().parse().ok());
        used.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn extend(&self) -> io::Result<()> {
        self.resize(SIZE)
    }

    /// Leaves the disk mounted.
    pub(super) fn keep(self) {
        mem::forget(self);
    }

    fn resize(&self, size: u64) -> io::Result<()> {
        let options = format!("remount,size={size}");
        run(Command::new("mount").args(["-o", &options]).arg(&self.0)).map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, since a reader of its logs may still be there.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}
