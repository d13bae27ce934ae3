//! The rule for `unsafe`: each block has a row in the table next to it, which lists the user code
//! that may run while its invariant is suspended, and the tests in which such code panics and calls
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use super::{last_part, spans};
use crate::workspace::Workspace;

/// The page in each `src` folder with unsafe code.
const PAGE: &str = "UNSAFE.md";
const HEADER: &str =
    "| unsafe code | invariant | suspended | user code meanwhile | it panics | it calls back |";
/// The prefix of the fourth column if no user code runs. The reason follows.
const NONE: &str = "none: ";

/// The number of `unsafe` uses per item, by `file: item`.
type Uses = BTreeMap<String, usize>;

/// Returns the offences.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut folders: BTreeMap<String, Uses> = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for (name, text) in workspace.texts("", ".rs")? {
        tests.extend(test_names(&text));
        if let Some((package, file)) = name.split_once("/src/") {
            let folder = folders.entry(format!("{package}/src")).or_default();
            folder.extend(uses(file, &text)?);
        }
    }
    let mut offences = Vec::new();
    for (folder, uses) in folders {
        let name = format!("{folder}/{PAGE}");
        if workspace.root.join(&name).exists() {
            offences.extend(check_page(&name, &workspace.read(&name)?, &uses, &tests));
        } else if !uses.is_empty() {
            offences.push(format!("{folder}: has unsafe code and no {PAGE}"));
        }
    }
    Ok(offences)
}

/// Compares a page with the code of its folder.
fn check_page(name: &str, page: &str, uses: &Uses, tests: &BTreeSet<String>) -> Vec<String> {
    let mut offences = Vec::new();
    let mut listed = Uses::new();
    for (line, row) in rows(page) {
        let mut offend = |what: String| offences.push(format!("{name}:{line}: {what}"));
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [code, _, _, user_code, panics, calls_back] = cells[..] else {
            offend("a row has six columns".to_owned());
            continue;
        };
        if cells.iter().any(|cell| cell.is_empty()) {
            offend("a cell is empty".to_owned());
        }
        for (item, count) in items(code) {
            if listed.insert(item.clone(), count).is_some() {
                offend(format!("`{item}` already has a row"));
            }
        }
        for (cell, what) in [(panics, "panics"), (calls_back, "calls back")] {
            let cited: Vec<_> = spans(cell).map(last_part).collect();
            if cited.is_empty() && !user_code.starts_with(NONE) {
                offend(format!("no test of this row has user code that {what}"));
            }
            let missing = cited.iter().filter(|test| !tests.contains(**test));
            missing.for_each(|test| offend(format!("no test `{test}`")));
        }
    }
    let mut offend = |what: String| offences.push(format!("{name}: {what}"));
    for (item, count) in uses {
        match listed.get(item) {
            Some(it) if it == count => {}
            Some(it) => offend(format!("`{item}` has {count} uses of `unsafe`, not {it}")),
            None => offend(format!("no row for `{item}`")),
        }
    }
    let stale = listed.keys().filter(|item| !uses.contains_key(*item));
    stale.for_each(|item| offend(format!("`{item}` has no unsafe code")));
    offences
}

/// The rows of the tables with that header, with their line numbers.
fn rows(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        inside = line == HEADER || (inside && line.starts_with('|'));
        let is_row = inside && line != HEADER && !line.starts_with("|--");
        is_row.then_some((index + 1, line))
    })
}

/// The items of a row's first column: a file, then its items, each with its number of uses unless
/// that is one.
fn items(cell: &str) -> Vec<(String, usize)> {
    let mut file = "";
    let mut items = Vec::new();
    for span in spans(cell) {
        if Path::new(span).extension().is_some() {
            file = span;
            continue;
        }
        let (item, count) = span.split_once(" ×").unwrap_or((span, "1"));
        // An invalid number never equals that of the code.
        items.push((format!("{file}: {item}"), count.parse().unwrap_or(0)));
    }
    items
}

/// The uses of `unsafe` in a file, except in tests: blocks and functions by their function, `impl`s
/// by trait and type. Function pointer types do not count.
fn uses(file: &str, text: &str) -> Result<Uses> {
    let mut visitor = Visitor {
        file,
        owner: None,
        functions: Vec::new(),
        uses: Uses::new(),
    };
    visitor.visit_file(&syn::parse_file(text).with_context(|| file.to_owned())?);
    Ok(visitor.uses)
}

struct Visitor<'f> {
    file: &'f str,
    /// The surrounding type or trait, and the name of the whole.
    owner: Option<(String, String)>,
    functions: Vec<String>,
    uses: Uses,
}

impl Visitor<'_> {
    fn count(&mut self, is_unsafe: bool) {
        if !is_unsafe {
            return;
        }
        let item = match (&self.owner, self.functions.last()) {
            (Some((of, _)), Some(function)) => format!("{of}::{function}"),
            (Some((_, whole)), None) => whole.clone(),
            (None, function) => function.cloned().unwrap_or_default(),
        };
        let item = format!("{}: {item}", self.file);
        *self.uses.entry(item).or_default() += 1;
    }

    fn inside(&mut self, function: &syn::Signature, visit: impl FnOnce(&mut Self)) {
        self.functions.push(function.ident.to_string());
        self.count(matches!(function.safety, syn::Safety::Unsafe(_)));
        visit(self);
        self.functions.pop();
    }

    fn owned(&mut self, owner: (String, String), is_unsafe: bool, visit: impl FnOnce(&mut Self)) {
        let outer = self.owner.replace(owner);
        let functions = std::mem::take(&mut self.functions);
        self.count(is_unsafe);
        visit(self);
        (self.owner, self.functions) = (outer, functions);
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            let list = attribute.meta.require_list();
            attribute.path().is_ident("cfg")
                && list.is_ok_and(|it| it.tokens.to_string().contains("test"))
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(it) => last_name(&it.path),
            _ => String::new(),
        };
        let whole = match &item.trait_ {
            Some((path, _)) => format!("{} for {of}", last_name(path)),
            None => of.clone(),
        };
        self.owned((of, whole), item.unsafety.is_some(), |it| {
            visit::visit_item_impl(it, item);
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let name = item.ident.to_string();
        self.owned((name.clone(), name), item.unsafety.is_some(), |it| {
            visit::visit_item_trait(it, item);
        });
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.inside(&item.sig, |it| visit::visit_item_fn(it, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.inside(&item.sig, |it| visit::visit_impl_item_fn(it, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.inside(&item.sig, |it| visit::visit_trait_item_fn(it, item));
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        self.count(item.unsafety.is_some());
        visit::visit_item_foreign_mod(self, item);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.count(true);
        visit::visit_expr_unsafe(self, block);
    }

    /// Arguments of macros are not parsed, so they are tried as expressions.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let arguments =
            item.parse_body_with(Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated);
        for argument in arguments.iter().flatten() {
            self.visit_expr(argument);
        }
    }
}

fn last_name(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map(|it| it.ident.to_string()).unwrap_or_default()
}

/// The functions with `#[test]`.
fn test_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        is_test |= line == "#[test]" || line.starts_with("#[testkit::");
        let name = line.split_once("fn ").filter(|_| is_test);
        if let Some((name, _)) = name.and_then(|(_, rest)| rest.split_once('(')) {
            names.push(name.to_owned());
            is_test = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
//! Not `unsafe {` here.
unsafe impl<T: ?Sized + Send> Sync for Cell<T> {}

struct Table {
    drop: unsafe fn(*mut u8),
}

impl<F: Fn() -> u8> Cell<F> {
    unsafe fn content(&self) -> &F {
        // SAFETY: unsafe { } is a comment.
        unsafe { &*self.0 }
    }

    fn both(
        &self,
    ) -> [u8; 2] {
        let name = "unsafe { }";
        unsafe { [self.a(), unsafe { self.b() }] }
    }
}

fn free() {
    unsafe fn inner() {}
    // SAFETY: none.
    unsafe { inner() };
}

#[cfg(test)]
mod tests {
    fn not_counted() {
        unsafe { x() }
    }
}
"#;

    fn offences(rows: &[&str]) -> Vec<String> {
        let tests =
            test_names("#[test]\nfn it_panics() {}\n#[testkit::test]\n#[cfg(x)]\nfn it_asks() {}");
        let tests = tests.into_iter().collect();
        let page = format!(
            "# Page\n\n{HEADER}\n|--|--|--|--|--|--|\n{}\n",
            rows.join("\n")
        );
        let uses = uses("a.rs", SOURCE).expect("it parses");
        check_page("UNSAFE.md", &page, &uses, &tests)
    }

    const FIRST: &str = "| `a.rs` `Sync for Cell`, `Cell::content ×2`, `Cell::both ×2` | i | never | none: a look | – | – |";
    const SECOND: &str =
        "| `a.rs` `free`, `free::x` | i | w | a body | `m::it_panics` | `it_asks` |";
    const LAST: &str = "| `a.rs` `free`, `inner` | i | w | a body | `m::it_panics` | `it_asks` |";

    #[test]
    fn uses_are_counted_per_item() {
        let uses = uses("a.rs", SOURCE).expect("it parses");
        let uses: Vec<_> = uses
            .iter()
            .map(|(item, count)| format!("{item} {count}"))
            .collect();
        let expected = [
            "Cell::both 2",
            "Cell::content 2",
            "Sync for Cell 1",
            "free 1",
            "inner 1",
        ];
        assert_eq!(uses, expected.map(|it| format!("a.rs: {it}")));
    }

    #[test]
    fn a_page_that_lists_each_use_once_is_clean() {
        assert_eq!(offences(&[FIRST, LAST]), [""; 0]);
    }

    #[test]
    fn missing_rows_stale_rows_and_wrong_numbers_are_offences() {
        let check = |rows: &[&str], expected: &[&str]| {
            let expected: Vec<_> = expected
                .iter()
                .map(|it| format!("UNSAFE.md:{it}"))
                .collect();
            assert_eq!(offences(rows), expected);
        };
        let missing = [" no row for `a.rs: free`", " no row for `a.rs: inner`"];
        check(&[FIRST], &missing);
        let stale = " `a.rs: free::x` has no unsafe code";
        check(&[FIRST, SECOND], &[missing[1], stale]);
        let twice = ["free", "inner"].map(|it| format!("7: `a.rs: {it}` already has a row"));
        check(&[FIRST, LAST, LAST], &twice.each_ref().map(|it| &**it));
        let row = FIRST.replace("both ×2", "both");
        let wrong = " `a.rs: Cell::both` has 2 uses of `unsafe`, not 1";
        check(&[&row, LAST], &[wrong]);
    }

    #[test]
    fn a_row_needs_six_cells_a_reason_and_existing_tests() {
        let of = |row: String| offences(&[FIRST, &row]).remove(0);
        let untested = "no test of this row has user code that calls back";
        for (right, wrong, expected) in [
            ("`it_asks`", "–", untested),
            ("it_asks", "it_asked", "no test `it_asked`"),
            ("| w |", "|  |", "a cell is empty"),
            ("| w |", "|", "a row has six columns"),
        ] {
            let expected = format!("UNSAFE.md:6: {expected}");
            assert_eq!(of(LAST.replace(right, wrong)), expected);
        }
        let row = FIRST.replace("none: a look", "none");
        assert_eq!(offences(&[&row, LAST]).len(), 2, "without a reason");
    }
}
