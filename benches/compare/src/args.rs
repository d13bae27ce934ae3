//! The command line.

use std::error::Error;

use measure::case::Run;

const USAGE: &str = "usage: compare list | compare run [--quick] [--oversubscribed] CASE POOL | \
                     compare spin";

#[derive(Debug, PartialEq)]
pub enum Command {
    List,
    Run(Run),
    Spin,
}

/// Parses the arguments after the program's name.
pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, Box<dyn Error>> {
    let command = arguments.next().ok_or(USAGE)?;
    let (flags, words): (Vec<_>, Vec<_>) =
        arguments.partition(|argument| argument.starts_with("--"));
    let known = ["--quick", "--oversubscribed"];
    if let Some(flag) = flags.iter().find(|flag| !known.contains(&flag.as_str())) {
        return Err(format!("unknown flag {flag}; {USAGE}").into());
    }
    match (command.as_str(), words.as_slice()) {
        ("list", []) => Ok(Command::List),
        ("spin", []) => Ok(Command::Spin),
        ("run", [case, pool]) => Ok(Command::Run(Run {
            case: case.clone(),
            pool: pool.clone(),
            quick: flags.iter().any(|flag| flag == "--quick"),
            oversubscribed: flags.iter().any(|flag| flag == "--oversubscribed"),
        })),
        _ => Err(USAGE.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Command, Box<dyn Error>> {
        parse(line.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn flags_may_precede_and_follow_the_words() {
        for line in [
            ["run", "--quick", "empty/1024", "tokio spawn"],
            ["run", "empty/1024", "tokio spawn", "--quick"],
        ] {
            let expected = Run {
                case: "empty/1024".into(),
                pool: "tokio spawn".into(),
                quick: true,
                oversubscribed: false,
            };
            assert_eq!(parsed(&line).unwrap(), Command::Run(expected));
        }
    }

    #[test]
    fn unknown_arguments_are_refused() {
        for line in [
            &["run", "case"][..],
            &["run", "--fast", "case", "pool"],
            &["list", "more"],
            &["walk"],
            &[],
        ] {
            assert!(parsed(line).is_err(), "{line:?}");
        }
    }
}
