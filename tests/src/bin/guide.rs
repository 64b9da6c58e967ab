//! Writes the generated parts of the guide in `docs/guide`: pictures, bytes and tables.
//!
//! | arguments | what it does |
//! |---|---|
//! | none | writes what is out of date |
//! | the name of a script or of a recorded connection | prints it, with the bytes of each frame |
//! | the name of a run with several recorded connections, such as `turns` | prints it |
//! | `try`, then commands | plays the commands against the in-memory server, and prints them |

use std::{env, fs, io};

use zk_testkit::guide::{RUNS, dump, folder, generate, recorded, scripts, trying};

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
    if let Some((_, run)) = RUNS.iter().find(|(it, _)| *it == name) {
        print!("{}", recorded::lanes(run, "lanes")?);
        return Ok(());
    }
    let script = scripts::SCRIPTS.iter().find(|(it, _)| *it == name);
    let (diagram, frames) = match script {
        Some((_, script)) => script(),
        None => {
            let frames = recorded::frames(name)?.into_iter().map(|(_, frame)| frame);
            (recorded::diagram(name, name)?, frames.collect())
        }
    };
    println!("{diagram}");
    for (number, frame) in frames.iter().enumerate() {
        println!("{number}: {}", dump::dump(frame));
    }
    Ok(())
}

/// Plays commands, and prints the picture and every frame below it.
fn try_out(commands: &[String]) -> io::Result<()> {
    let played = trying::play(commands);
    let stage = played.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    println!("{}", stage.diagram);
    for frame in &stage.frames {
        println!("{}", dump::dump(frame));
    }
    Ok(())
}
