//! How a command becomes a program, an argument list and an environment. Pure: the rules of both kinds of system are
//! functions over text, so that each is tested on every system; only `child.rs` asks the file system.

use std::fmt::Write as _;

/// Variables of a POSIX host that every child gets; the host adds to them. Not the whole environment: it may hold the
/// host's secrets, and a server is a stranger.
const POSIX_NAMES: [&str; 12] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "__CF_USER_TEXT_ENCODING",
    "SSL_CERT_FILE",
];
/// Families of such variables.
const POSIX_FAMILIES: [&str; 2] = ["LC_", "XDG_"];
/// The same for Windows, where programs fail in obscure ways without them (BR-08).
const WINDOWS_NAMES: [&str; 24] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMPUTERNAME",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Which system's rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    Posix,
    Windows,
}

/// The rules of this system.
pub(crate) const HERE: Rules = if cfg!(windows) { Rules::Windows } else { Rules::Posix };

type Pairs = Vec<(String, String)>;

/// The child's environment: the safe part of the host's (or all of it), then what the settings add. On Windows names
/// differ only where they differ in more than case, and the added spelling takes the place of the old one.
pub(crate) fn environment(rules: Rules, host: &[(String, String)], whole: bool, added: &[(String, String)]) -> Pairs {
    let mut out: Pairs = Vec::new();
    let inherited = host.iter().filter(|(name, value)| whole || is_safe(rules, name, value));
    for (name, value) in inherited.chain(added) {
        match out.iter_mut().find(|(have, _)| same_name(rules, have, name)) {
            Some(slot) => *slot = (name.clone(), value.clone()),
            None => out.push((name.clone(), value.clone())),
        }
    }
    out
}

/// The value of a variable.
pub(crate) fn variable<'a>(rules: Rules, environment: &'a [(String, String)], name: &str) -> Option<&'a str> {
    environment.iter().find(|(have, _)| same_name(rules, have, name)).map(|(_, value)| value.as_str())
}

fn same_name(rules: Rules, one: &str, other: &str) -> bool {
    match rules {
        Rules::Posix => one == other,
        Rules::Windows => one.eq_ignore_ascii_case(other),
    }
}

fn is_safe(rules: Rules, name: &str, value: &str) -> bool {
    match rules {
        // A value like this is a shell function that was exported: code, not data.
        Rules::Posix if value.starts_with("()") => false,
        Rules::Posix => POSIX_NAMES.contains(&name) || POSIX_FAMILIES.iter().any(|family| name.starts_with(family)),
        Rules::Windows => WINDOWS_NAMES.iter().any(|safe| safe.eq_ignore_ascii_case(name)),
    }
}

/// Where a command may be found, in order. A command with a path in it is looked for just there.
pub(crate) fn candidates(rules: Rules, command: &str, environment: &[(String, String)]) -> Vec<String> {
    let path = variable(rules, environment, "PATH").unwrap_or_default();
    match rules {
        Rules::Posix if command.contains('/') => vec![command.to_owned()],
        // An empty entry is the current directory to a shell; here it is nothing (a planted program would be run).
        Rules::Posix => path.split(':').filter(|dir| !dir.is_empty()).map(|dir| joined(dir, command, '/')).collect(),
        Rules::Windows => {
            let names = windows_names(command, variable(rules, environment, "PATHEXT"));
            if command.contains(['\\', '/', ':']) {
                return names;
            }
            let dirs = path.split(';').map(|dir| dir.trim_matches('"')).filter(|dir| !dir.is_empty());
            dirs.flat_map(|dir| names.iter().map(move |name| joined(dir, name, '\\'))).collect()
        }
    }
}

/// The command itself where it has an extension, then with each of PATHEXT: `npx` is found as `npx.cmd`.
fn windows_names(command: &str, path_ext: Option<&str>) -> Vec<String> {
    let extensions = path_ext.filter(|text| !text.trim().is_empty()).unwrap_or(".COM;.EXE;.BAT;.CMD");
    let file = command.rsplit(['\\', '/']).next().unwrap_or(command);
    let has_extension = file.rfind('.').is_some_and(|dot| dot > 0 && dot + 1 < file.len());
    let own = has_extension.then(|| command.to_owned());
    let extended = extensions.split(';').map(str::trim).filter(|extension| extension.starts_with('.'));
    own.into_iter().chain(extended.map(|extension| format!("{command}{}", extension.to_ascii_lowercase()))).collect()
}

fn joined(dir: &str, name: &str, separator: char) -> String {
    if dir.ends_with(['/', separator]) { format!("{dir}{name}") } else { format!("{dir}{separator}{name}") }
}

/// True for what only `cmd.exe` can run.
#[cfg(any(windows, test))]
pub(crate) fn is_batch(program: &str) -> bool {
    let end = program.len().saturating_sub(4);
    program.get(end..).is_some_and(|end| end.eq_ignore_ascii_case(".cmd") || end.eq_ignore_ascii_case(".bat"))
}

/// The arguments of `cmd.exe` that run a batch file with exactly these arguments (BR-09), or why that cannot be done.
///
/// `/e:ON` for the trick with `%`, `/v:OFF` so that `!` means nothing, `/d` so that no AutoRun of the registry is run.
#[cfg(any(windows, test))]
pub(crate) fn batch_line(script: &str, arguments: &[String]) -> Result<String, &'static str> {
    if script.contains(['"', '\r', '\n', '\0', '%']) || script.ends_with('\\') {
        return Err("its path has a character that cmd.exe cannot take");
    }
    let mut line = format!("/e:ON /v:OFF /d /c \"\"{script}\"");
    for argument in arguments {
        line.push(' ');
        push_batch_argument(&mut line, argument)?;
    }
    line.push('"');
    Ok(line)
}

/// Two readers have to agree on one argument: `cmd.exe`, to which a quote begins or ends a quoted part, whatever stands
/// before it, and the program's own start-up code, which reads `\"` and `""`. Inside quotes no operator of `cmd.exe`
/// means anything; `%` still does, and is broken by an expansion of nothing (`%cd:~,%`).
#[cfg(any(windows, test))]
fn push_batch_argument(line: &mut String, argument: &str) -> Result<(), &'static str> {
    // A line break ends the command line of cmd.exe, and the rest would be lost or run.
    if argument.contains(['\r', '\n', '\0']) {
        return Err("an argument has a line break or a NUL, which cmd.exe cannot take");
    }
    line.push('"');
    let mut backslashes = 0;
    for character in argument.chars() {
        match character {
            '\\' => backslashes += 1,
            '"' => {
                // Backslashes count double before a quote, and only there.
                line.extend(std::iter::repeat_n('\\', backslashes));
                line.push('"');
                backslashes = 0;
            }
            '%' => {
                line.push_str("%%cd:~,");
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(character);
    }
    line.extend(std::iter::repeat_n('\\', backslashes));
    line.push('"');
    Ok(())
}

/// Tells a server apart from others by its command: the command and a digest of all of it.
pub(crate) fn identity(command: &str, arguments: &[String]) -> String {
    // FNV-1a, 64 bits: a name, not a proof.
    let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
    for text in std::iter::once(command).chain(arguments.iter().map(String::as_str)) {
        for byte in text.bytes().chain(std::iter::once(0)) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let mut out = format!("stdio:{name}:");
    // Writing to a String cannot fail.
    write!(out, "{digest:016x}").unwrap_or_default();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn br_08_a_launcher_is_found_by_pathext() {
        let env = pairs(&[("Path", r#"C:\node;"C:\my tools";;D:\"#), ("PATHEXT", ".EXE;.CMD")]);
        assert_eq!(
            candidates(Rules::Windows, "npx", &env),
            [
                r"C:\node\npx.exe",
                r"C:\node\npx.cmd",
                r"C:\my tools\npx.exe",
                r"C:\my tools\npx.cmd",
                r"D:\npx.exe",
                r"D:\npx.cmd",
            ]
        );
        assert_eq!(candidates(Rules::Windows, r".\srv", &env), [r".\srv.exe", r".\srv.cmd"]);
        assert_eq!(
            candidates(Rules::Windows, r"C:\a.b\srv.exe", &[]),
            [
                r"C:\a.b\srv.exe",
                r"C:\a.b\srv.exe.com",
                r"C:\a.b\srv.exe.exe",
                r"C:\a.b\srv.exe.bat",
                r"C:\a.b\srv.exe.cmd"
            ]
        );
        assert_eq!(windows_names(r"C:\a.b\srv", Some(".EXE")), [r"C:\a.b\srv.exe"]);
        assert!(is_batch("x.CMD") && is_batch(r"C:\x.bat") && !is_batch("x.exe") && !is_batch("cmd"));
    }

    #[test]
    fn a_posix_command_is_looked_for_on_the_path_alone() {
        let env = pairs(&[("PATH", "/usr/bin::/opt/x/")]);
        assert_eq!(candidates(Rules::Posix, "node", &env), ["/usr/bin/node", "/opt/x/node"]);
        assert_eq!(candidates(Rules::Posix, "./node", &env), ["./node"]);
        assert_eq!(candidates(Rules::Posix, "node", &[]), Vec::<String>::new());
    }

    #[test]
    fn br_08_what_is_added_stands_beside_a_usable_base() {
        let host = pairs(&[
            ("SystemRoot", r"C:\Windows"),
            ("ComSpec", "cmd"),
            ("Path", "old"),
            ("PathExt", ".EXE"),
            ("ProgramData", "p"),
            ("AppData", "a"),
            ("LocalAppData", "l"),
            ("Temp", "t"),
            ("MY_TOKEN", "secret"),
        ]);
        let out = environment(Rules::Windows, &host, false, &pairs(&[("EXTRA", "1"), ("PATH", "new")]));
        let names: Vec<&str> = out.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["SystemRoot", "ComSpec", "PATH", "PathExt", "ProgramData", "AppData", "LocalAppData", "Temp", "EXTRA"]
        );
        assert_eq!(variable(Rules::Windows, &out, "path"), Some("new"));
    }

    #[test]
    fn a_posix_child_gets_no_secret_of_the_hosts() {
        let host =
            pairs(&[("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET", "x"), ("TERM", "() { evil; }"), ("HOME", "/h")]);
        let out = environment(Rules::Posix, &host, false, &pairs(&[("HOME", "/other"), ("Home", "x")]));
        assert_eq!(out, pairs(&[("PATH", "/bin"), ("LC_ALL", "C"), ("HOME", "/other"), ("Home", "x")]));
        assert_eq!(environment(Rules::Posix, &host, true, &[]).len(), 5);
    }

    #[test]
    fn br_09_an_argument_is_one_argument_or_the_start_is_refused() {
        for (argument, want) in [
            ("a b", r#""a b""#),
            ("", r#""""#),
            ("x&echo made>marker.txt", r#""x&echo made>marker.txt""#),
            ("100%", r#""100%%cd:~,%""#),
            ("%PATH%", r#""%%cd:~,%PATH%%cd:~,%""#),
            ("a^b", r#""a^b""#),
            (r#"say "hi""#, r#""say ""hi""""#),
            (r#"x" & calc & ""#, r#""x"" & calc & """"#),
            (r#"back\"slash"#, r#""back\\""slash""#),
            (r"C:\dir with space\", r#""C:\dir with space\\""#),
            ("a|b", r#""a|b""#),
            ("!x!", r#""!x!""#),
        ] {
            let line = batch_line(r"C:\srv.cmd", &[argument.to_owned()]).unwrap();
            assert_eq!(line, format!(r#"/e:ON /v:OFF /d /c ""C:\srv.cmd" {want}""#), "{argument}");
            assert_eq!(line.matches('"').count() % 2, 0, "{argument}: every quote is closed");
        }
        for bad in ["a\nb", "a\rb", "a\0b"] {
            assert!(batch_line(r"C:\srv.cmd", &[bad.to_owned()]).is_err());
        }
        for bad in ["a\"b.cmd", "a%PATH%.cmd", "a\nb.cmd"] {
            assert!(batch_line(bad, &[]).is_err());
        }
    }

    #[test]
    fn the_identity_is_of_the_whole_command() {
        let args = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let one = identity("/usr/bin/npx", &args(&["-y", "server"]));
        assert!(one.starts_with("stdio:npx:") && one.len() == "stdio:npx:".len() + 16);
        assert_ne!(one, identity("/usr/bin/npx", &args(&["-yserver"])));
        assert_ne!(one, identity("/usr/bin/npx", &args(&["-y", "server", ""])));
        assert_eq!(one, identity("/usr/bin/npx", &args(&["-y", "server"])));
    }
}
