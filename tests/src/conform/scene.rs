//! Scenes: text that says what the client is asked, and what the server does.

use std::fmt;

/// The families of scenes, in the order of the report.
const FAMILIES: &[(&str, &str)] = &[
    ("handshake", include_str!("scenes/handshake.txt")),
    ("requests", include_str!("scenes/requests.txt")),
    ("errors", include_str!("scenes/errors.txt")),
    ("order", include_str!("scenes/order.txt")),
    ("watches", include_str!("scenes/watches.txt")),
    ("reconnect", include_str!("scenes/reconnect.txt")),
    ("keepalive", include_str!("scenes/keepalive.txt")),
    ("damage", include_str!("scenes/damage.txt")),
    ("read-only", include_str!("scenes/read-only.txt")),
    ("auth", include_str!("scenes/auth.txt")),
    ("servers", include_str!("scenes/servers.txt")),
    ("locks", include_str!("scenes/locks.txt")),
    ("keeper", include_str!("scenes/keeper.txt")),
];

/// A scene: what the client is asked, what the server does, and what both must see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The family, which is the name of its file.
    pub family: &'static str,
    /// The name, a sentence.
    pub name: String,
    /// The page and the section of `docs` that state the fact.
    pub source: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A line of a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the line in the file of the family, from 1.
    pub line: usize,
    /// The client that it is about: 0, or 1 for lines that begin with `b:`.
    pub client: usize,
    /// The verb.
    pub verb: String,
    /// The words behind it.
    pub words: Vec<String>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.client == 1 {
            f.write_str("b: ")?;
        }
        write!(f, "{} {}", self.verb, self.words.join(" "))
    }
}

impl Scene {
    /// Returns the family and the name, which identify the scene.
    pub fn title(&self) -> String {
        format!("{}: {}", self.family, self.name)
    }

    /// Returns how many servers the client is given.
    pub fn servers(&self) -> usize {
        let names = |server: usize| {
            let name = format!("${server}");
            let local = format!("$localhost{server}");
            self.steps.iter().any(|step| {
                step.words
                    .iter()
                    .any(|word| word.split([',', '/']).any(|word| word == name || word == local))
            })
        };
        (1..4).filter(|&server| names(server)).max().map_or(1, |last| last + 1)
    }
}

/// Returns all scenes, family by family.
///
/// # Panics
///
/// If a file of scenes is malformed.
pub fn scenes() -> Vec<Scene> {
    FAMILIES.iter().flat_map(|(family, text)| parse(family, text)).collect()
}

/// Returns the scenes that ask a server.
///
/// # Panics
///
/// If the file is malformed.
pub fn server_scenes() -> Vec<Scene> {
    parse("server", include_str!("scenes/server.txt"))
}

/// Returns the names of the families.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(family, _)| *family)
}

fn parse(family: &'static str, text: &str) -> Vec<Scene> {
    let mut scenes: Vec<Scene> = Vec::new();
    let mut each: Vec<String> = Vec::new();
    let mut done = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default();
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace().map(String::from);
        let mut verb = words.next().unwrap_or_default();
        match verb.as_str() {
            "scene" => {
                done.append(&mut expand(&mut scenes, &mut each));
                let name = words.collect::<Vec<_>>().join(" ");
                scenes.push(Scene { family, name, source: String::new(), steps: Vec::new() });
            }
            "source" => last(&mut scenes).source = words.collect::<Vec<_>>().join(" "),
            "each" => each = words.collect(),
            _ => {
                let client = usize::from(verb == "b:");
                if client == 1 {
                    verb = words.next().unwrap_or_default();
                }
                let step = Step { line: number + 1, client, verb, words: words.collect() };
                last(&mut scenes).steps.push(step);
            }
        }
    }
    done.append(&mut expand(&mut scenes, &mut each));
    done
}

fn last(scenes: &mut [Scene]) -> &mut Scene {
    scenes.last_mut().expect("a file begins with a scene")
}

/// Makes one scene for each word behind `each`, which replaces `{}`; `~` in it is a space.
fn expand(scenes: &mut Vec<Scene>, each: &mut Vec<String>) -> Vec<Scene> {
    let Some(scene) = scenes.pop() else { return Vec::new() };
    let each = std::mem::take(each);
    if each.is_empty() {
        return vec![scene];
    }
    let with = |value: &String| {
        let mut scene = scene.clone();
        scene.name = scene.name.replace("{}", &value.replace('~', " "));
        for step in &mut scene.steps {
            let words = step.words.iter().flat_map(|word| match word.as_str() {
                "{}" => value.split('~').map(Into::into).collect(),
                _ => vec![word.replace("{}", value)],
            });
            step.words = words.collect();
        }
        scene
    };
    each.iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn names_are_unique_and_sources_exist() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let mut titles = BTreeSet::new();
        for scene in scenes().into_iter().chain(server_scenes()) {
            assert!(titles.insert(scene.title()), "{} exists twice", scene.title());
            let (page, section) = scene.source.split_once('#').unwrap_or((&scene.source, ""));
            let text = fs::read_to_string(docs.join(page));
            let text = text.unwrap_or_else(|error| panic!("{}: {page:?}: {error}", scene.title()));
            let headings = text.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| {
                let kept = |char: &char| char.is_alphanumeric() || [' ', '-'].contains(char);
                line.trim_start_matches('#')
                    .trim()
                    .chars()
                    .filter(kept)
                    .collect::<String>()
                    .to_lowercase()
                    .replace(' ', "-")
            });
            assert!(anchors.any(|anchor| anchor == section), "{}: no #{section}", scene.title());
        }
    }

    #[test]
    fn a_scene_with_each_is_several_scenes() {
        let scenes = parse("x", "scene cut after {} bytes\neach 1 2\n  b: cut {}\n");
        let names: Vec<_> = scenes.iter().map(|scene| scene.name.as_str()).collect();
        assert_eq!(names, ["cut after 1 bytes", "cut after 2 bytes"]);
        assert_eq!(scenes[1].steps[0].to_string(), "b: cut 2");
    }
}
