//! `cargo xtask hygiene`: the rules of this repository that no compiler checks.

mod circles;
mod forks;
mod models;
mod pages;
mod sources;
mod unsafe_code;

use anyhow::{Result, ensure};

use crate::workspace::Workspace;
use crate::{cmutants, deps};

/// Checks all rules and names every offence.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut offences = sources::check(workspace)?;
    offences.extend(pages::check(workspace)?);
    offences.extend(circles::check(workspace)?);
    offences.extend(models::check(workspace)?);
    offences.extend(unsafe_code::check(workspace)?);
    offences.extend(forks::check(workspace)?);
    offences.extend(deps::too_many(workspace)?);
    if let Err(error) = cmutants::check_list(workspace) {
        offences.push(format!("{error:#}"));
    }
    for offence in &offences {
        println!("{offence}");
    }
    ensure!(
        offences.is_empty(),
        "{} offences against hygiene",
        offences.len()
    );
    println!("hygiene: clean");
    Ok(())
}
