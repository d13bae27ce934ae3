//! `cargo xtask hygiene`: the rules of this repository that no compiler checks, and statistics of
//! its size.
//!
//! `xtask/hygiene.toml` has the subjects of the rules.

mod circles;
mod figures;
mod forks;
mod imports;
mod light;
mod mentions;
mod models;
mod names;
mod pages;
mod process_wide;
mod unsafe_code;
mod waits;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::workspace::Workspace;
use crate::{cmutants, deps};

const CONFIG: &str = "xtask/hygiene.toml";
/// A longer file may contain more than one idea.
const MANY_LINES: usize = 900;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    rooms: Vec<figures::Rooms>,
    #[serde(default, rename = "circle")]
    circles: Vec<circles::Circle>,
    forks: forks::Forks,
    mentions: Vec<mentions::Mention>,
    waits: waits::Waits,
}

/// Checks all rules and prints every offence and the statistics. `build` adds those for which
/// programs must be built.
pub(crate) fn run(workspace: &Workspace, build: bool) -> Result<()> {
    let config: Config = toml::from_str(&workspace.read(CONFIG)?).context(CONFIG)?;
    let mut offences = sources(workspace)?;
    offences.extend(pages::check(workspace)?);
    offences.extend(circles::check(workspace, &config.circles)?);
    offences.extend(models::check(workspace)?);
    offences.extend(unsafe_code::check(workspace)?);
    offences.extend(forks::check(workspace, &config.forks)?);
    offences.extend(mentions::check(workspace, &config.mentions)?);
    offences.extend(names::check(workspace)?);
    offences.extend(process_wide::check(workspace)?);
    offences.extend(waits::check(workspace, &config.waits)?);
    offences.extend(deps::too_many(workspace)?);
    offences.extend(light::check(workspace)?);
    if let Err(error) = cmutants::check_texts(workspace, &cmutants::load(workspace)?) {
        offences.push(format!("{error:#}"));
    }
    offences.extend(figures::print(workspace, &config.rooms, build)?);
    for offence in &offences {
        println!("{offence}");
    }
    ensure!(
        offences.is_empty(),
        "{} violations of hygiene rules",
        offences.len()
    );
    println!("hygiene: clean");
    Ok(())
}

/// Warns of long files, counts the calls of user code, and requires `forbid(unsafe_code)` in crates
/// without a page about unsafe code.
fn sources(workspace: &Workspace) -> Result<Vec<String>> {
    let mut user_code = Vec::new();
    for name in workspace.crates()? {
        let mut count = 0;
        for (file, text) in workspace.texts(&format!("crates/{name}/src"), ".rs")? {
            let lines = text.lines().count();
            if lines > MANY_LINES {
                println!("warning: {file}: {lines} lines");
            }
            count += text.matches("// USER CODE: ").count();
        }
        if count > 0 {
            user_code.push(format!("{name} {count}"));
        }
    }
    println!("places that call user code: {}", user_code.join(", "));
    let mut offences = Vec::new();
    for name in workspace.crates()? {
        let folder = workspace.folder(&name).join("src");
        let root = folder.join("lib.rs");
        let is_subject = root.exists() && !folder.join("UNSAFE.md").exists();
        if is_subject && !workspace.read(&root)?.contains("\n#![forbid(unsafe_code)]") {
            offences.push(format!("{name}: src/lib.rs lacks #![forbid(unsafe_code)]"));
        }
    }
    Ok(offences)
}

/// The last part of a path of Rust.
fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The texts between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a character belongs to a word or an identifier of Rust.
fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
