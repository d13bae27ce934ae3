//! A site for a run without arguments.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::Checked;
use crate::args::Options;

const PAGES: usize = 3_000;
/// One page in this number has a broken link.
const BROKEN_EVERY: usize = 300;

/// Writes a site, checks it on a server that fails now and then, and removes it. Succeeds if exactly the broken links are
/// found.
pub(crate) fn run(
    check_all: impl FnOnce(&Options) -> Result<Checked, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("check-links-{}", std::process::id()));
    println!(
        "Without arguments: a site of {PAGES} pages in {}",
        folder.display()
    );
    fs::create_dir_all(&folder)?;
    let checked = write(&folder).map_err(Box::from).and_then(|()| {
        let mut options = Options::new(folder.clone());
        options.refuse_every = Some(20);
        options.ignore_every = Some(100);
        options.timeout = Duration::from_secs(1);
        check_all(&options)
    });
    fs::remove_dir_all(&folder)?;
    let checked = checked?;
    if checked.signal.is_none() && checked.broken == PAGES / BROKEN_EVERY {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(checked.status())
}

fn write(folder: &Path) -> std::io::Result<()> {
    let name = |page: usize| {
        let kind = if page.is_multiple_of(2) { "md" } else { "html" };
        format!("page%20{}.{kind}", page % PAGES)
    };
    for page in 0..PAGES {
        let mut targets: Vec<String> = (1..=5).map(|step| name(page + step * step)).collect();
        if page.is_multiple_of(BROKEN_EVERY) {
            targets.push(format!("missing-{page}.md"));
        }
        let links = targets.iter().map(|target| {
            if page.is_multiple_of(2) {
                format!("- [a page]({target})\n")
            } else {
                format!("<p><a href=\"{target}\">a page</a>\n")
            }
        });
        let file = folder.join(name(page).replace("%20", " "));
        fs::write(file, links.collect::<String>())?;
    }
    Ok(())
}
