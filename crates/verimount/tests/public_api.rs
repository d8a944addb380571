//! The library's public names are those in `public-api.txt`, which is reviewed when it changes.
//!
//! `VERIMOUNT_UPDATE=1 cargo test -p verimount --test public_api` writes it.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, Ident, ImplItem, Item, Macro, Signature, Token, Type, UseTree, Visibility,
    parse::ParseStream, parse_quote, punctuated::Punctuated,
};

/// The most names that are not methods: what is more belongs in another crate.
const MOST_NAMES: usize = 120;

/// Modules that are public, and files of which items are.
struct Listed {
    /// What `lib.rs` and the public modules give names to.
    names: BTreeSet<String>,
    /// Methods of types that are public.
    methods: BTreeSet<String>,
    public_types: BTreeSet<String>,
}

#[test]
fn public_names_are_those_that_were_reviewed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut listed = Listed {
        names: BTreeSet::new(),
        methods: BTreeSet::new(),
        public_types: BTreeSet::new(),
    };
    listed.module(&root.join("src/lib.rs"), "");
    // Whose types are re-exported.
    let content = root.join("../content/src");
    for file in sources(&root.join("src"))
        .into_iter()
        .chain(sources(&content))
    {
        listed.methods_in(&file);
    }
    assert!(
        listed.names.len() <= MOST_NAMES,
        "{} names",
        listed.names.len()
    );
    let lines = listed.names.iter().chain(&listed.methods);
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let reviewed = root.join("public-api.txt");
    if env::var_os("VERIMOUNT_UPDATE").is_some() {
        fs::write(&reviewed, &text).unwrap();
    }
    let expected = fs::read_to_string(&reviewed).unwrap();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (found, expected) = (lines(&text), lines(&expected));
    let more: Vec<_> = found.difference(&expected).collect();
    let fewer: Vec<_> = expected.difference(&found).collect();
    assert!(
        more.is_empty() && fewer.is_empty(),
        "public-api.txt does not have {more:#?}, and has {fewer:#?}: see tests/public_api.rs"
    );
}

impl Listed {
    fn module(&mut self, file: &Path, path: &str) {
        for item in parsed(file) {
            match item {
                Item::Use(item) if is_public(&item.vis) => self.used(&item.tree, path),
                Item::Mod(item) if is_public(&item.vis) => {
                    let name = item.ident.to_string();
                    self.names.insert(format!("{path}{name}"));
                    let folder = file.parent().unwrap();
                    self.module(
                        &folder.join(format!("{name}.rs")),
                        &format!("{path}{name}::"),
                    );
                }
                Item::Fn(item) if is_public(&item.vis) => {
                    self.names.insert(format!("{path}{}", item.sig.ident));
                    self.methods
                        .insert(format!("{path}{}", signature(&item.sig)));
                }
                Item::Type(item) if is_public(&item.vis) => self.name(item.ident.to_string(), path),
                Item::Struct(item) if is_public(&item.vis) => {
                    self.name(item.ident.to_string(), path);
                }
                Item::Enum(item) if is_public(&item.vis) => self.name(item.ident.to_string(), path),
                _ => {}
            }
        }
    }

    fn used(&mut self, tree: &UseTree, path: &str) {
        match tree {
            UseTree::Path(inner) => self.used(&inner.tree, path),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.used(item, path)),
            UseTree::Name(name) => self.name(name.ident.to_string(), path),
            UseTree::Rename(rename) => self.name(rename.rename.to_string(), path),
            UseTree::Glob(_) => panic!("names are listed one by one"),
        }
    }

    fn name(&mut self, name: String, path: &str) {
        self.names.insert(format!("{path}{name}"));
        self.public_types.insert(name);
    }

    fn methods_in(&mut self, file: &Path) {
        for item in parsed(file) {
            match item {
                Item::Impl(block) if block.trait_.is_none() => {
                    let name = block.self_ty.to_token_stream().to_string();
                    let is_listed = self.public_types.contains(&name);
                    for item in block.items.iter().filter(|_| is_listed) {
                        let signatures = match item {
                            ImplItem::Fn(method) if is_public(&method.vis) => {
                                vec![method.sig.clone()]
                            }
                            ImplItem::Macro(item) if item.mac.path.is_ident("setters") => {
                                setters(&item.mac)
                            }
                            ImplItem::Macro(item) => panic!("{}", item.mac.to_token_stream()),
                            _ => Vec::new(),
                        };
                        let signatures = signatures.iter().map(signature);
                        self.methods
                            .extend(signatures.map(|signature| format!("{name}::{signature}")));
                    }
                }
                Item::Fn(function) if is_public(&function.vis) && self.has(&function.sig) => {
                    self.methods.insert(signature(&function.sig));
                }
                _ => {}
            }
        }
    }
}

impl Listed {
    /// Whether a function is public under its own name.
    fn has(&self, signature: &Signature) -> bool {
        self.public_types.contains(&signature.ident.to_string())
    }
}

/// What `verimount_content::setters` declares.
fn setters(declared: &Macro) -> Vec<Signature> {
    let setter = |input: ParseStream<'_>| -> syn::Result<Signature> {
        input.call(Attribute::parse_outer)?;
        let name: Ident = input.parse()?;
        input.parse::<Token![:]>()?;
        let argument: Type = input.parse()?;
        input.parse::<Token![=>]>()?;
        Punctuated::<Ident, Token![.]>::parse_separated_nonempty(input)?;
        input.parse::<Token![;]>()?;
        Ok(parse_quote!(fn #name(self, value: #argument) -> Self))
    };
    let all = |input: ParseStream<'_>| {
        let mut all = Vec::new();
        while !input.is_empty() {
            all.push(setter(input)?);
        }
        Ok(all)
    };
    declared.parse_body_with(all).unwrap()
}

/// Without the names of arguments, and whether one is changed, which callers do not notice.
fn signature(signature: &Signature) -> String {
    let arguments = signature.inputs.iter().map(|argument| match argument {
        FnArg::Receiver(receiver) => receiver.to_token_stream(),
        FnArg::Typed(argument) => argument.ty.to_token_stream(),
    });
    let (name, output) = (&signature.ident, &signature.output);
    let text = quote!(#name(#(#arguments),*) #output).to_string();
    // As it is usually written, or nearly.
    let spaces = [
        (" (", "("),
        (" < ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" ,", ","),
        (" :: ", "::"),
    ];
    let text = spaces
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to));
    text.replace("(mut self", "(self")
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn parsed(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    syn::parse_file(&text).unwrap().items
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| {
        if path.is_dir() {
            sources(&path)
        } else {
            vec![path]
        }
    });
    let all = all.filter(|path| path.file_name() != Some("absent.rs".as_ref()));
    all.filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}
