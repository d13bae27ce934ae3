//! The attributes of `testkit`, which re-exports and documents them.
//!
//! They do not use `syn`: a function's last token is its body, and the name follows `fn`. Tokens
//! are passed on unchanged, so that errors and lints point into the test.

#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

/// `#[test]` under a watchdog: a test that has not ended after `testkit::LIMIT` aborts the process.
///
/// Other attributes of tests, and a returned `Result`, work as with `#[test]`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return error("`testkit::test` takes no arguments");
    }
    let Some(function) = Function::of(item) else {
        return error(NO_FUNCTION);
    };
    let name = function.name();
    // Created before the body's block and dropped after it, and so after the variables of the body.
    let mut body = code(&format!(
        "let _watchdog = ::testkit::Watchdog::start(
            ::core::concat!(::core::module_path!(), \"::\", {name}),
            ::testkit::LIMIT,
        );"
    ));
    let parameters = TokenTree::Group(function.parameters.clone());
    body.extend([function.body.clone()]);
    function.into_test(parameters, body)
}

/// A model with the name of its function: `#[testkit::model(preemptions = 3)] fn name() { .. }`
/// calls `crate::check("name", Some(3), || { .. })`.
///
/// Without `preemptions`, all interleavings are explored. `check = path` selects another function
/// than `crate::check`, which may pass arguments to the body: the parameters of the function.
#[proc_macro_attribute]
pub fn model(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let Some(Arguments { preemptions, check }) = Arguments::of(arguments) else {
        return error("expected `preemptions = NUMBER`, `check = PATH`, or both");
    };
    let bound = preemptions.map_or_else(
        || code("::core::option::Option::None"),
        |number| {
            let mut bound = code("::core::option::Option::Some");
            bound.extend([parenthesized(number)]);
            bound
        },
    );
    explored(item, check.unwrap_or_else(|| code("crate::check")), bound)
}

/// A scenario of random schedules with the name of its function: `#[testkit::scenario] fn name() {
/// .. }` calls `crate::explore("name", || { .. })`.
#[proc_macro_attribute]
pub fn scenario(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return error("`testkit::scenario` takes no arguments");
    }
    explored(item, code("crate::explore"), TokenStream::new())
}

const NO_FUNCTION: &str = "expected a function with a body";

/// A test that calls `explorer` with the function's name, `bound`, and its body as a closure.
fn explored(item: TokenStream, explorer: TokenStream, bound: TokenStream) -> TokenStream {
    let Some(function) = Function::of(item) else {
        return error(NO_FUNCTION);
    };
    let mut arguments = TokenStream::from(TokenTree::Literal(function.name()));
    arguments.extend(code(","));
    if !bound.is_empty() {
        arguments.extend(bound);
        arguments.extend(code(","));
    }
    arguments.extend(code("|"));
    arguments.extend(function.parameters.stream());
    arguments.extend(code("|"));
    arguments.extend([function.body.clone()]);
    let mut body = explorer;
    body.extend([parenthesized(arguments)]);
    body.extend(code(";"));
    function.into_test(parenthesized(TokenStream::new()), body)
}

struct Function {
    /// Attributes, visibility, `fn`.
    before: Vec<TokenTree>,
    name: Ident,
    parameters: Group,
    /// The return type, between the parameters and the body.
    after: Vec<TokenTree>,
    body: TokenTree,
}

impl Function {
    fn of(item: TokenStream) -> Option<Self> {
        let mut before: Vec<_> = item.into_iter().collect();
        let body = before.pop()?;
        let is_fn =
            |token: &TokenTree| matches!(token, TokenTree::Ident(it) if it.to_string() == "fn");
        let mut rest = before
            .split_off(before.iter().position(is_fn)? + 1)
            .into_iter();
        match (rest.next()?, rest.next()?) {
            (TokenTree::Ident(name), TokenTree::Group(parameters)) => Some(Self {
                before,
                name,
                parameters,
                after: rest.collect(),
                body,
            }),
            _ => None,
        }
    }

    fn name(&self) -> Literal {
        Literal::string(&self.name.to_string())
    }

    fn into_test(self, parameters: TokenTree, body: TokenStream) -> TokenStream {
        let mut test = code("#[::core::prelude::v1::test]");
        test.extend(self.before);
        test.extend([TokenTree::Ident(self.name), parameters]);
        test.extend(self.after);
        test.extend([TokenTree::Group(Group::new(Delimiter::Brace, body))]);
        test
    }
}

#[derive(Default)]
struct Arguments {
    preemptions: Option<TokenStream>,
    check: Option<TokenStream>,
}

impl Arguments {
    fn of(tokens: TokenStream) -> Option<Self> {
        let mut arguments = Self::default();
        let tokens: Vec<_> = tokens.into_iter().collect();
        for argument in tokens.split(|token| is_punct(token, ',')) {
            match argument {
                [] => {}
                [TokenTree::Ident(name), equals, value @ ..]
                    if is_punct(equals, '=') && !value.is_empty() =>
                {
                    let value = Some(value.iter().cloned().collect());
                    match name.to_string().as_str() {
                        "preemptions" => arguments.preemptions = value,
                        "check" => arguments.check = value,
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
        Some(arguments)
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == character)
}

fn parenthesized(tokens: TokenStream) -> TokenTree {
    TokenTree::Group(Group::new(Delimiter::Parenthesis, tokens))
}

/// Parses code with the macro's hygiene, so that variables and lints of the test do not affect it.
fn code(text: &str) -> TokenStream {
    let tokens: TokenStream = text.parse().expect("it is Rust");
    tokens.into_iter().map(foreign).collect()
}

fn foreign(mut token: TokenTree) -> TokenTree {
    if let TokenTree::Group(group) = token {
        let inner = group.stream().into_iter().map(foreign).collect();
        token = TokenTree::Group(Group::new(group.delimiter(), inner));
    }
    token.set_span(Span::mixed_site());
    token
}

fn error(text: &str) -> TokenStream {
    code(&format!("::core::compile_error!({text:?});"))
}
