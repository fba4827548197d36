use super::*;

/// The variables of RFC 6570, section 3.2.
const VARIABLES: &str = r#"{
    "count": ["one", "two", "three"], "dom": ["example", "com"], "dub": "me/too", "hello": "Hello World!",
    "half": "50%", "var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar",
    "list": ["red", "green", "blue"], "keys": {"semi": ";", "dot": ".", "comma": ","}, "v": "6", "x": "1024",
    "y": "768", "empty": "", "empty_keys": {}, "undef": null
}"#;

fn check(rows: &[(&str, &str)]) {
    for (template, want) in rows {
        assert_eq!(
            expand(template, VARIABLES).as_deref().map_err(|error| error.message().to_owned()),
            Ok(*want),
            "{template}"
        );
    }
}

#[test]
fn the_examples_of_the_rfc_simple_and_reserved() {
    check(&[
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("?{undef,y}", "?768"),
        ("{var:3}", "val"),
        ("{var:30}", "value"),
        ("{list}", "red,green,blue"),
        ("{list*}", "red,green,blue"),
        ("{keys}", "semi,%3B,dot,.,comma,%2C"),
        ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("O{+empty}X", "OX"),
        ("O{+undef}X", "OX"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("{+path:6}/here", "/foo/b/here"),
        ("{+list}", "red,green,blue"),
        ("{+list*}", "red,green,blue"),
        ("{+keys}", "semi,;,dot,.,comma,,"),
        ("{+keys*}", "semi=;,dot=.,comma=,"),
        ("{#var}", "#value"),
        ("{#hello}", "#Hello%20World!"),
        ("{#half}", "#50%25"),
        ("foo{#empty}", "foo#"),
        ("foo{#undef}", "foo"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("{#path:6}/here", "#/foo/b/here"),
        ("{#list}", "#red,green,blue"),
        ("{#list*}", "#red,green,blue"),
        ("{#keys}", "#semi,;,dot,.,comma,,"),
        ("{#keys*}", "#semi=;,dot=.,comma=,"),
    ]);
}

#[test]
fn the_examples_of_the_rfc_labels_and_paths() {
    check(&[
        ("{.who}", ".fred"),
        ("{.who,who}", ".fred.fred"),
        ("{.half,who}", ".50%25.fred"),
        ("www{.dom*}", "www.example.com"),
        ("X{.var}", "X.value"),
        ("X{.empty}", "X."),
        ("X{.undef}", "X"),
        ("X{.var:3}", "X.val"),
        ("X{.list}", "X.red,green,blue"),
        ("X{.list*}", "X.red.green.blue"),
        ("X{.keys}", "X.semi,%3B,dot,.,comma,%2C"),
        ("X{.keys*}", "X.semi=%3B.dot=..comma=%2C"),
        ("X{.empty_keys}", "X"),
        ("X{.empty_keys*}", "X"),
        ("{/who}", "/fred"),
        ("{/who,who}", "/fred/fred"),
        ("{/half,who}", "/50%25/fred"),
        ("{/who,dub}", "/fred/me%2Ftoo"),
        ("{/var}", "/value"),
        ("{/var,empty}", "/value/"),
        ("{/var,undef}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{/var:1,var}", "/v/value"),
        ("{/list}", "/red,green,blue"),
        ("{/list*}", "/red/green/blue"),
        ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
        ("{/keys}", "/semi,%3B,dot,.,comma,%2C"),
        ("{/keys*}", "/semi=%3B/dot=./comma=%2C"),
    ]);
}

#[test]
fn the_examples_of_the_rfc_parameters_and_queries() {
    check(&[
        ("{;who}", ";who=fred"),
        ("{;half}", ";half=50%25"),
        ("{;empty}", ";empty"),
        ("{;v,empty,who}", ";v=6;empty;who=fred"),
        ("{;v,bar,who}", ";v=6;who=fred"),
        ("{;x,y}", ";x=1024;y=768"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{;x,y,undef}", ";x=1024;y=768"),
        ("{;hello:5}", ";hello=Hello"),
        ("{;list}", ";list=red,green,blue"),
        ("{;list*}", ";list=red;list=green;list=blue"),
        ("{;keys}", ";keys=semi,%3B,dot,.,comma,%2C"),
        ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
        ("{?who}", "?who=fred"),
        ("{?half}", "?half=50%25"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("{?x,y,undef}", "?x=1024&y=768"),
        ("{?var:3}", "?var=val"),
        ("{?list}", "?list=red,green,blue"),
        ("{?list*}", "?list=red&list=green&list=blue"),
        ("{?keys}", "?keys=semi,%3B,dot,.,comma,%2C"),
        ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
        ("{&who}", "&who=fred"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("{&var:3}", "&var=val"),
        ("{&list*}", "&list=red&list=green&list=blue"),
        ("{&keys*}", "&semi=%3B&dot=.&comma=%2C"),
    ]);
}

#[test]
fn what_servers_and_hosts_write_beside_the_examples() {
    for (template, variables, want) in [
        ("test://template/{id}/data", r#"{"id":7}"#, "test://template/7/data"),
        ("file:///{+path}", r#"{"path":"a b/ü.txt"}"#, "file:///a%20b/%C3%BC.txt"),
        ("file:///{path}", r#"{"path":"../a"}"#, "file:///..%2Fa"),
        (
            "db://{user-id}/{a.b}{?flag,n}",
            r#"{"user-id":"u","a.b":1,"flag":true,"n":1.50}"#,
            "db://u/1?flag=true&n=1.50",
        ),
        ("{n}", r#"{"n":123456789012345678901234567890}"#, "123456789012345678901234567890"),
        ("{+a}", r#"{"a":"%20%zz%"}"#, "%20%25zz%25"),
        ("{a}", r#"{"a":"%20"}"#, "%2520"),
        ("ü {a}", "{}", "%C3%BC%20"),
        ("100%{a}", "{}", "100%25"),
        ("{a:2}", r#"{"a":"üäö"}"#, "%C3%BC%C3%A4"),
        ("{a}", r#"{"a":"👍"}"#, "%F0%9F%91%8D"),
        ("{?a*}", r#"{"a":["x",null,"z"]}"#, "?a=x&a=z"),
        ("{?a*}", r#"{"a":[null]}"#, ""),
        ("{?a*}", r#"{"a":{"k":null,"e":"","n":2}}"#, "?e=&n=2"),
        ("{;a*}", r#"{"a":["",1]}"#, ";a;a=1"),
        ("{;a*}", r#"{"a":{"e":""}}"#, ";e"),
        ("{/a*}", r#"{"a":{"e":""}}"#, "/e="),
        ("", "{}", ""),
        ("plain", r#"{"a":{"b":{}}}"#, "plain"),
    ] {
        assert_eq!(expand(template, variables).unwrap(), want, "{template} {variables}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let none = "the URI template is not one of RFC 6570: ";
    for (template, variables, want) in [
        ("{a", "{}", format!("{none}a {{ has no }} behind it")),
        ("a}b", "{}", format!("{none}a }} has no {{ before it")),
        ("{a{b}}", "{}", format!("{none}a {{ has no }} behind it")),
        ("{}", "{}", format!("{none}an expression is empty")),
        ("{?}", "{}", format!("{none}{{}} is no name of a variable")),
        ("{a,,b}", "{}", format!("{none}{{}} is no name of a variable")),
        ("{=a}", "{}", format!("{none}the operator = has no meaning")),
        ("{|a}", "{}", format!("{none}the operator | has no meaning")),
        ("{a b}", "{}", format!("{none}{{a b}} is no name of a variable")),
        ("{ü}", "{}", format!("{none}{{ü}} is no name of a variable")),
        ("{a:0}", "{}", format!("{none}{{a:0}} has a prefix that is no number from 1 to 9999")),
        ("{a:+1}", "{}", format!("{none}{{a:+1}} has a prefix that is no number from 1 to 9999")),
        ("{a:10000}", "{}", format!("{none}{{a:10000}} has a prefix that is no number from 1 to 9999")),
        ("{a:3*}", "{}", format!("{none}{{a:3*}} is no name of a variable")),
        ("{a}", r#"{"a":[[1]]}"#, "variables.a: an array or object within another".into()),
        ("{a}", r#"{"a":{"b":[]}}"#, "variables.a: an array or object within another".into()),
        ("{a:3}", r#"{"a":["x"]}"#, "variables.a: the template wants a prefix of it, which only a text has".into()),
    ] {
        let error = expand(template, variables).unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::Argument, want.as_str()), "{template} {variables}");
    }
    for variables in ["[]", "7", "", "{"] {
        let error = expand("{a}", variables).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument);
        assert!(error.message().starts_with("variables are not a JSON object: "), "{}", error.message());
    }
}

#[test]
fn a_small_template_does_not_make_an_endless_uri() {
    let variables = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
    assert_eq!(expand(&"{a}".repeat(100_000), &variables).unwrap_err().kind(), Kind::TooLarge);
    assert_eq!(expand(&"{a}".repeat(100), &variables).unwrap().len(), 1_000_000);
}
