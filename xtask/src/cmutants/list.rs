#![doc = include_str!("../../cmutants/README.md")]

use std::collections::HashSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::process::Test;
use crate::workspace::Workspace;

/// Relative to the root.
const FOLDER: &str = "xtask/cmutants";
const KINDS: [&str; 5] = ["ordering", "notify", "recheck", "swap", STATEMENT];
/// A mistake in a statement of a database, which no tool makes.
const STATEMENT: &str = "statement";
/// The ends of the files that contain statements.
const STATEMENTS: [&str; 4] = [".sql", ".lua", "/sql.rs", "/schema.rs"];

/// A mutant: a wrong edit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    /// A unique name.
    pub(crate) id: String,
    /// The crate of the edited file.
    #[serde(skip)]
    pub(crate) package: String,
    /// The edited file, relative to the root.
    pub(crate) file: String,
    /// The kind of the mistake.
    pub(crate) kind: String,
    /// The original text, which occurs once in the file.
    pub(crate) find: String,
    pub(crate) replace: String,
    /// Parts of the paths of the models that should fail.
    #[serde(default)]
    pub(crate) models: Vec<String>,
    /// The ordinary tests that should fail.
    #[serde(default)]
    pub(crate) tests: Vec<TestFilter>,
    /// The reason why no execution can differ.
    pub(crate) equivalent: Option<String>,
}

/// A set of ordinary tests, written `crate::part of their paths`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct TestFilter {
    /// The crate of the tests.
    pub(crate) package: String,
    /// A part of the path within the test binary.
    pub(crate) part: String,
}

impl TryFrom<String> for TestFilter {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once("::") {
            Some((package, part)) if !package.is_empty() && !part.is_empty() => Ok(Self {
                package: package.to_owned(),
                part: part.to_owned(),
            }),
            _ => Err(format!("not `crate::part`: {text}")),
        }
    }
}

impl TestFilter {
    /// Whether the filter selects this test.
    pub(crate) fn matches(&self, test: &Test) -> bool {
        test.binary.package == self.package && test.test.contains(&self.part)
    }
}

impl fmt::Display for TestFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.package, self.part)
    }
}

impl Mutant {
    /// Returns the file's text with the edit.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        let count = text.matches(&self.find).count();
        let Mutant { id, file, .. } = self;
        ensure!(
            count == 1,
            "mutant {id} is stale: its text occurs {count} times in {file}"
        );
        Ok(text.replacen(&self.find, &self.replace, 1))
    }

    /// Whether models should detect it. A mutant that names neither models nor tests is for all
    /// models of its crate.
    pub(crate) fn is_modelled(&self) -> bool {
        !self.models.is_empty() || self.tests.is_empty()
    }

    /// Whether this model should detect it.
    pub(crate) fn is_watched_by(&self, test: &Test) -> bool {
        let named = self.models.iter().any(|filter| test.test.contains(filter));
        let for_all = self.models.is_empty() && self.is_modelled();
        test.binary.package == self.package && (named || for_all)
    }

    /// Whether this ordinary test should detect it.
    pub(crate) fn is_tested_by(&self, test: &Test) -> bool {
        self.tests.iter().any(|filter| filter.matches(test))
    }
}

/// Reads all lists.
pub(crate) fn load(workspace: &Workspace) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for (path, text) in workspace.texts(FOLDER, ".toml")? {
        let package = path[FOLDER.len() + 1..].trim_end_matches(".toml");
        mutants.extend(parse(package, &text).context(path.clone())?);
    }
    let mut ids = HashSet::new();
    for Mutant { id, .. } in &mutants {
        ensure!(ids.insert(id), "two mutants are called {id}");
    }
    Ok(mutants)
}

/// Checks that every mutant can be applied.
pub(crate) fn check_texts(workspace: &Workspace, mutants: &[Mutant]) -> Result<()> {
    let apply = |mutant: &Mutant| mutant.apply(&workspace.read(&mutant.file)?);
    let stale = mutants.iter().filter_map(|mutant| apply(mutant).err());
    let stale: Vec<_> = stale.map(|error| format!("{error:#}")).collect();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    Ok(())
}

/// The file format of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

fn parse(package: &str, text: &str) -> Result<Vec<Mutant>> {
    let mut mutants = toml::from_str::<List>(text)?.mutant;
    let folder = format!("crates/{package}/src/");
    for mutant in &mut mutants {
        let Mutant { id, file, kind, .. } = &*mutant;
        ensure!(file.starts_with(&folder), "{id}: {file} is not in {folder}");
        let (is_known, kinds) = (KINDS.contains(&kind.as_str()), KINDS.join(", "));
        ensure!(is_known, "{id}: unknown kind; the kinds are {kinds}");
        let has_statements = STATEMENTS.iter().any(|end| file.ends_with(end));
        ensure!(
            kind != STATEMENT || has_statements,
            "{id}: {file} contains no SQL or Lua"
        );
        let changes = !mutant.find.is_empty() && mutant.find != mutant.replace;
        ensure!(changes, "{id} changes nothing");
        package.clone_into(&mut mutant.package);
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Binary;

    const ENTRY: &str = "
[[mutant]]
id = 'a'
file = 'crates/x/src/lib.rs'
kind = 'notify'
find = '''
    one();
'''
replace = ''
models = ['submit', 'release']
";

    fn mutant() -> Mutant {
        parse("x", ENTRY).expect("it is well formed").remove(0)
    }

    #[test]
    fn an_entry_keeps_the_indentation_of_its_text() {
        let mutant = mutant();
        assert_eq!(mutant.find, "    one();\n");
        assert_eq!(mutant.package, "x");
        let applied = mutant.apply("{\n    one();\n}\n");
        assert_eq!(applied.expect("it occurs once"), "{\n}\n");
    }

    #[test]
    fn a_text_that_does_not_occur_exactly_once_is_stale() {
        for text in ["", "    one();\n    one();\n"] {
            let error = mutant().apply(text).expect_err("it is stale").to_string();
            assert!(error.contains("mutant a is stale"), "{error}");
        }
    }

    #[test]
    fn an_entry_is_for_all_models_unless_it_names_models_or_tests() {
        let test = |package: &str, test: &str| {
            let (package, test) = (package.to_owned(), test.to_owned());
            let path = "loom".into();
            let binary = Binary { package, path };
            Test { binary, test }
        };
        let mut mutant = mutant();
        assert!(mutant.is_watched_by(&test("x", "life::release_racing_submit")));
        assert!(!mutant.is_watched_by(&test("x", "tune_racing_tune")));
        assert!(!mutant.is_watched_by(&test("y", "life::release_racing_submit")));
        mutant.models.clear();
        assert!(mutant.is_watched_by(&test("x", "tune_racing_tune")));
        assert!(!mutant.is_watched_by(&test("y", "tune_racing_tune")));

        let entry = format!("{ENTRY}tests = ['y::keep_alive']\n");
        mutant = parse("x", &entry).expect("it is well formed").remove(0);
        assert!(mutant.is_tested_by(&test("y", "life::keep_alive_zero")));
        assert!(!mutant.is_tested_by(&test("x", "life::keep_alive_zero")));
        assert!(!mutant.is_tested_by(&test("y", "life::release")));
        assert!(mutant.is_watched_by(&test("x", "submit")));
        mutant.models.clear();
        assert!(!mutant.is_modelled() && !mutant.is_watched_by(&test("x", "submit")));
    }

    #[test]
    fn an_entry_with_a_wrong_or_missing_value_is_refused() {
        for (right, wrong) in [
            ("'notify'", "'typo'"),
            ("'notify'", "'state'"),
            ("'notify'", "'statement'"),
            ("crates/x/", "crates/y/"),
            ("replace = ''", ""),
            ("models = [", "model = ["),
            ("models = ['submit'", "tests = ['submit'"),
            ("['submit', 'release']", "'submit'"),
            ("replace = ''", "replace = '''\n    one();\n'''"),
            ("[[mutant]]", "[[mutants]]"),
        ] {
            let text = ENTRY.replace(right, wrong);
            assert_ne!(text, ENTRY, "{right}");
            assert!(parse("x", &text).is_err(), "{wrong}");
        }
    }
}
