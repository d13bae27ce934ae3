//! Finds the links of a file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use html5gum::{Token, Tokenizer};
use pulldown_cmark::{Event, Parser, Tag};
use url::Url;

/// Links that were found so far.
#[derive(Default)]
pub(crate) struct Found {
    /// Paths below the folder as a URL has them, and the files that link to them.
    pub(crate) sources: BTreeMap<String, Vec<PathBuf>>,
    pub(crate) files: usize,
    /// Number of links to other hosts and by other schemes.
    pub(crate) elsewhere: usize,
}

impl Found {
    /// Adds the links of a file that is called `name` below the folder. Returns the new ones.
    pub(crate) fn read(&mut self, path: &Path, name: &Path) -> io::Result<Vec<String>> {
        let is_html = match path.extension().and_then(|it| it.to_str()) {
            Some("html" | "htm") => true,
            Some("md") => false,
            _ => return Ok(Vec::new()),
        };
        let text = fs::read_to_string(path)?;
        self.files += 1;
        let links = if is_html {
            links_of_html(&text)
        } else {
            links_of_markdown(&text)
        };
        let page = page_url(name);
        let mut new = Vec::new();
        for link in links {
            match page.join(&link) {
                Ok(target) if target.host() == page.host() && target.scheme() == "http" => {
                    let sources = self.sources.entry(target.path().to_owned()).or_default();
                    if sources.is_empty() {
                        new.push(target.path().to_owned());
                    }
                    if sources.last().is_none_or(|last| last != name) {
                        sources.push(name.to_owned());
                    }
                }
                _ => self.elsewhere += 1,
            }
        }
        Ok(new)
    }
}

/// URL of a page on the server, under a host name that no other page has.
fn page_url(name: &Path) -> Url {
    let mut page = Url::parse("http://folder.invalid/").unwrap_or_else(|_| unreachable!());
    let parts = name.iter().map(|part| part.to_string_lossy());
    if let Ok(mut path) = page.path_segments_mut() {
        path.clear().extend(parts);
    }
    page
}

fn links_of_html(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for Ok(token) in Tokenizer::new(text) {
        if let Token::StartTag(tag) = token {
            let values = [&b"href"[..], b"src"].map(|name| tag.attributes.get(name));
            let values = values.into_iter().flatten();
            links.extend(values.map(|value| String::from_utf8_lossy(value).into_owned()));
        }
    }
    links
}

fn links_of_markdown(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut html = String::new();
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string());
            }
            Event::Html(part) | Event::InlineHtml(part) => html.push_str(&part),
            _ => {}
        }
    }
    links.extend(links_of_html(&html));
    links
}
