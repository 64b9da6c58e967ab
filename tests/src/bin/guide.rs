//! Writes the generated parts of the guide in `docs/guide`: pictures, bytes and tables.
//!
//! | arguments | what it does |
//! |---|---|
//! | none | writes what is out of date |
//! | the name of a script or of a recorded connection | prints it, with the bytes of each frame |
//! | `try`, then commands | plays the commands against the in-memory server, and prints them |

use std::{env, fs, io};

use zk_testkit::guide::{dump, folder, generate, recorded, scripts, trying};

fn main() -> io::Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.split_first() {
        Some((name, commands)) if name == "try" => try_out(commands),
        Some((name, _)) => show(name),
        None => write(),
    }
}

fn write() -> io::Result<()> {
    fs::create_dir_all(folder().join("pictures"))?;
    for (path, text) in generate()? {
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            println!("{}", path.display());
            fs::write(path, text)?;
        }
    }
    Ok(())
}

fn show(name: &str) -> io::Result<()> {
    let script = scripts::SCRIPTS.iter().find(|(it, _)| *it == name);
    let (diagram, frames) = match script {
        Some((_, script)) => script(),
        None => (recorded::diagram(name, name)?, recorded::frames(name)?),
    };
    println!("{diagram}");
    for (number, frame) in frames.iter().enumerate() {
        println!("{number}: {}", dump::dump(frame));
    }
    Ok(())
}

/// Plays commands, and prints the frames behind the handshakes below the picture.
fn try_out(commands: &[String]) -> io::Result<()> {
    let played = trying::play(commands);
    let stage = played.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    println!("{}", stage.diagram);
    for frame in &stage.frames {
        println!("{}", dump::dump(frame));
    }
    Ok(())
}
