//! Writes the stories of `docs/play`, or checks with `--check` that they are up to date.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use zk_play::stories::{ALL, index};

fn main() -> io::Result<ExitCode> {
    let checks = env::args().any(|argument| argument == "--check");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/play/stories");
    let stories = ALL.iter().map(|story| (story.name, story.script()));
    let mut code = ExitCode::SUCCESS;
    for (name, text) in stories.chain([("index", index())]) {
        let path = folder.join(format!("{name}.js"));
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            println!("{} is out of date", path.display());
            if checks {
                code = ExitCode::FAILURE;
            } else {
                fs::write(path, text)?;
            }
        }
    }
    Ok(code)
}
