//! `cargo xtask hygiene`: the rules of this repository that no compiler checks, and statistics of
//! its size.
//!
//! `xtask/hygiene.toml` has the subjects of the rules.

mod circles;
mod figures;
mod forks;
mod models;
mod names;
mod pages;
mod unsafe_code;

use std::collections::BTreeMap;

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
    safe: Vec<String>,
    layers: Vec<Vec<String>>,
    #[serde(default, rename = "circle")]
    circles: Vec<circles::Circle>,
    forks: forks::Forks,
}

/// Checks all rules and prints every offence and the statistics. `build` adds those for which
/// programs must be built.
pub(crate) fn run(workspace: &Workspace, build: bool) -> Result<()> {
    let config: Config = toml::from_str(&workspace.read(CONFIG)?).context(CONFIG)?;
    let mut offences = sources(workspace, &config)?;
    offences.extend(pages::check(workspace)?);
    offences.extend(circles::check(workspace, &config.circles)?);
    offences.extend(models::check(workspace)?);
    offences.extend(unsafe_code::check(workspace)?);
    offences.extend(forks::check(workspace, &config.forks)?);
    offences.extend(names::check(workspace)?);
    offences.extend(deps::too_many(workspace)?);
    if let Err(error) = cmutants::check_list(workspace) {
        offences.push(format!("{error:#}"));
    }
    figures::print(workspace, &config.layers, build)?;
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

/// Warns of long files, counts the calls of user code, and requires `forbid(unsafe_code)`.
fn sources(workspace: &Workspace, config: &Config) -> Result<Vec<String>> {
    let mut user_code: BTreeMap<String, usize> = BTreeMap::new();
    for name in workspace.crates()? {
        for path in workspace.files(&format!("crates/{name}/src"))? {
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = workspace.read(&path)?;
                let lines = text.lines().count();
                if lines > MANY_LINES {
                    println!("warning: {}: {lines} lines", path.display());
                }
                *user_code.entry(name.clone()).or_default() +=
                    text.matches("// USER CODE: ").count();
            }
        }
    }
    user_code.retain(|_, count| *count > 0);
    let places = user_code
        .iter()
        .map(|(name, count)| format!("{name} {count}"));
    println!(
        "places that call user code: {}",
        places.collect::<Vec<_>>().join(", ")
    );
    let mut offences = Vec::new();
    for name in &config.safe {
        let path = format!("crates/{name}/src/lib.rs");
        if !workspace.read(&path)?.contains("\n#![forbid(unsafe_code)]") {
            offences.push(format!("{path}: lacks #![forbid(unsafe_code)]"));
        }
    }
    Ok(offences)
}
