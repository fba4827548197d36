use std::fmt::Write as _;

use serde_json::json;

use super::*;

fn read(schema: &str) -> Schema {
    Schema::read(&Json::parse(schema).unwrap()).unwrap_or_else(|refused| panic!("{schema}: {refused:?}"))
}

/// "" for a value that fits, else the keyword and where.
fn told(schema: &Schema, value: &str) -> String {
    match schema.check(&Json::parse(value).unwrap()) {
        Ok(()) => String::new(),
        Err(Mismatch::Keyword { pointer, keyword }) => format!("{keyword} {pointer}"),
        Err(Mismatch::Unchecked(why)) => why,
    }
}

fn table(schema: &str, cases: &[(&str, &str)]) {
    let schema_of = read(schema);
    for (value, want) in cases {
        assert_eq!(told(&schema_of, value), *want, "{schema} {value}");
    }
}

fn refused(schema: &str) -> String {
    match Schema::read(&Json::trusted(schema)) {
        Ok(_) => panic!("{schema} is taken"),
        Err(Refused::Dialect(name)) => format!("dialect {name}"),
        Err(Refused::Invalid(why)) => why,
    }
}

#[test]
fn the_first_mismatch_is_told_with_its_place() {
    let schema = r#"{"type":"object","required":["files"],"additionalProperties":false,"properties":{
        "files":{"type":"array","minItems":1,"items":{"type":"object","properties":{"a/b~c":{"type":"string","maxLength":2}}}}}}"#;
    table(
        schema,
        &[
            (r#"{"files":[{}]}"#, ""),
            ("{}", "required "),
            ("[]", "type "),
            (r#"{"files":[]}"#, "minItems /files"),
            (r#"{"files":[{}],"more":1}"#, "additionalProperties /more"),
            (r#"{"files":[{},{"a/b~c":7}]}"#, "type /files/1/a~1b~0c"),
            (r#"{"files":[{"a/b~c":"世界"}]}"#, ""),
            (r#"{"files":[{"a/b~c":"世界x"}]}"#, "maxLength /files/0/a~1b~0c"),
        ],
    );
    for (schema, fits, fails) in [
        (r#"{"type":"array"}"#, "[]", "{}"),
        (r#"{"type":"string"}"#, "\"\"", "null"),
        (r#"{"type":"null"}"#, "null", "0"),
        (r#"{"type":"boolean"}"#, "true", "1"),
        (r#"{"type":["integer","null"]}"#, "1e2", "1.5"),
    ] {
        table(schema, &[(fits, ""), (fails, "type ")]);
    }
}

#[test]
fn br_31_large_numbers_are_compared_to_the_last_digit() {
    table(r#"{"const":9007199254740993}"#, &[("9007199254740993", ""), ("9007199254740992", "const ")]);
    table(
        r#"{"enum":[18446744073709551616,"x",{"a":1}]}"#,
        &[("18446744073709551616", ""), ("18446744073709551617", "enum "), ("{\"a\":1.0}", ""), ("\"x\"", "")],
    );
    table(r#"{"multipleOf":2}"#, &[("9007199254740994", ""), ("9007199254740993", "multipleOf "), ("1e400", "")]);
    table(r#"{"multipleOf":0.01}"#, &[("19.99", ""), ("0.3", ""), ("19.999", "multipleOf ")]);
    table(
        r#"{"minimum":9007199254740993,"exclusiveMaximum":1e30}"#,
        &[
            ("9007199254740992", "minimum "),
            ("9007199254740993", ""),
            ("1e30", "exclusiveMaximum "),
            ("999999999999999999999999999999", ""),
        ],
    );
    table(r#"{"type":"integer","uniqueItems":true}"#, &[("123456789012345678901234567890", ""), ("1e-400", "type ")]);
    table(r#"{"uniqueItems":true}"#, &[("[9007199254740992,9007199254740993]", ""), ("[1,1.0]", "uniqueItems ")]);
}

#[test]
fn draft_07_has_its_own_words() {
    let schema = r##"{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"number"}},
        "properties":{"t":{"items":[{"$ref":"#/definitions/n"},{"type":"string"}],"additionalItems":false},
        "r":{"$ref":"#/definitions/n","maximum":3}},"dependencies":{"a":["b"],"c":{"required":["d"]}},
        "if":{"required":["i"]},"then":{"required":["j"]},"else":{"required":["t"]}}"##;
    table(
        schema,
        &[
            (r#"{"t":[1,"x"]}"#, ""),
            (r#"{"t":["x"]}"#, "type /t/0"),
            (r#"{"t":[1,"x",2]}"#, "items /t/2"),
            (r#"{"t":[],"a":1}"#, "dependencies "),
            (r#"{"t":[],"c":1}"#, "required "),
            (r#"{"t":[],"r":4}"#, ""),
            ("{}", "required "),
            (r#"{"i":1}"#, "required "),
        ],
    );
    table(r#"{"items":[{"type":"string"}],"$schema":"http://json-schema.org/draft-07/schema"}"#, &[("[1]", "type /0")]);
}

#[test]
fn of_2020_has_its_own_words() {
    table(
        r#"{"prefixItems":[{"type":"string"}],"items":{"type":"number"},"contains":{"const":7},"maxContains":1}"#,
        &[
            ("[\"a\",7]", ""),
            ("[1,7]", "type /0"),
            ("[\"a\",7,\"b\"]", "type /2"),
            ("[\"a\"]", "contains "),
            ("[\"a\",7,7]", "contains "),
        ],
    );
    table(
        r##"{"$defs":{"base":{"properties":{"a":true}}},"allOf":[{"$ref":"#/$defs/base"}],
        "anyOf":[{"properties":{"b":{"type":"string"}},"required":["b"]},true],"unevaluatedProperties":false}"##,
        &[
            (r#"{"a":1,"b":"x"}"#, ""),
            (r#"{"a":1,"b":2}"#, "unevaluatedProperties /b"),
            (r#"{"c":1}"#, "unevaluatedProperties /c"),
        ],
    );
    table(r#"{"prefixItems":[true],"unevaluatedItems":false}"#, &[("[1]", ""), ("[1,2]", "unevaluatedItems /1")]);
    // The textbook case: a tree whose extension is strict all the way down.
    let tree = r##"{"$id":"https://h/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{
        "tree":{"$id":"https://h/tree","$dynamicAnchor":"node","type":"object","properties":{"data":true,
        "children":{"type":"array","items":{"$dynamicRef":"#node"}}}}}}"##;
    table(
        tree,
        &[
            (r#"{"children":[{"data":1}]}"#, ""),
            (r#"{"children":[{"daat":1}]}"#, "unevaluatedProperties /children/0/daat"),
        ],
    );
    table(
        r#"{"dependentRequired":{"a":["b"]},"propertyNames":{"pattern":"^[a-c]$"},"patternProperties":{"^c":{"type":"null"}}}"#,
        &[
            (r#"{"a":1,"b":2}"#, ""),
            (r#"{"a":1}"#, "dependentRequired "),
            (r#"{"d":1}"#, "propertyNames "),
            (r#"{"c":1}"#, "type /c"),
        ],
    );
    table(
        r#"{"oneOf":[{"multipleOf":3},{"multipleOf":5}],"not":{"const":9}}"#,
        &[("6", ""), ("15", "oneOf "), ("7", "oneOf "), ("9", "not ")],
    );
}

#[test]
fn annotations_check_nothing() {
    let schema = r#"{"format":"email","contentEncoding":"base64","default":{"$ref":"http://h/x"},"examples":[{"$ref":7}],"x":1}"#;
    table(schema, &[("\"no\"", ""), ("1", "")]);
}

#[test]
fn br_33_what_leads_out_of_a_schema_or_makes_none_is_refused() {
    for (schema, want) in [
        (
            r#"{"$ref":"http://127.0.0.1:9/probe.json"}"#,
            "its $ref http://127.0.0.1:9/probe.json leads out of the schema, and nothing is loaded",
        ),
        (
            r#"{"$ref":"file:///etc/passwd"}"#,
            "its $ref file:///etc/passwd leads out of the schema, and nothing is loaded",
        ),
        (
            r#"{"properties":{"a":{"$ref":"other.json#/x"}}}"#,
            "its $ref other.json#/x leads out of the schema, and nothing is loaded",
        ),
        (
            r##"{"$defs":{"a":{"$ref":"http://h/x"}},"allOf":[{"$ref":"#/$defs/a"}]}"##,
            "its $ref http://h/x leads out of the schema, and nothing is loaded",
        ),
        (r##"{"$ref":"#/$defs/none"}"##, "its $ref #/$defs/none leads nowhere"),
        (r##"{"$ref":"#none"}"##, "its $ref #none leads nowhere"),
        (r#"{"$ref":7}"#, "its $ref is no string"),
        (r#"{"$schema":7}"#, "its $schema is no string"),
        (r#"{"$schema":"https://unreachable.example/schema"}"#, "dialect https://unreachable.example/schema"),
        (r#"{"type":"any"}"#, "its type is none of the seven"),
        (r#"{"minLength":-1}"#, "its minLength is no whole number from 0"),
        (r#"{"multipleOf":0}"#, "its multipleOf is not above 0, or has too many digits"),
        (r#"{"required":true}"#, "its required is no array"),
        (r#"{"properties":[]}"#, "its properties is no object"),
        (r#"{"allOf":{}}"#, "its allOf is no array"),
        (r#"{"not":7}"#, "a schema in it is neither an object nor true or false"),
        ("\"x\"", "a schema in it is neither an object nor true or false"),
    ] {
        assert_eq!(refused(schema), want, "{schema}");
    }
    let deep = format!("{}true{}", r#"{"allOf":["#.repeat(5000), "]}".repeat(5000));
    assert_eq!(refused(&deep), "it nests deeper than 100 levels");
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(MOST_SCHEMA_BYTES));
    assert_eq!(refused(&large), "it is over the limit of 1048576 bytes");
}

#[test]
fn half_a_surrogate_pair_is_checked_like_any_text() {
    table(r#"{"type":"string","maxLength":1}"#, &[(r#""\ud800""#, ""), (r#""\ud800x""#, "maxLength ")]);
}

/// Schemas that would run for ever, explode or overflow the stack; on a small stack, as hosts have.
#[test]
#[allow(clippy::disallowed_methods, reason = "a stack of a size of its own needs a thread")]
fn nasty_schemas_end_soon_and_leave_the_stack_alone() {
    let small = std::thread::Builder::new().stack_size(1 << 20);
    small.spawn(nasty_schemas).unwrap().join().unwrap();
}

fn nasty_schemas() {
    const DEEP: &str = "its schema goes too deep, or in a circle";
    const LONG: &str = "its schema takes too many steps to check";
    let circle = r##"{"$ref":"#"}"##;
    let circles =
        r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##;
    let dynamic = r##"{"$dynamicAnchor":"x","allOf":[{"$dynamicRef":"#x"}]}"##;
    let names = r##"{"propertyNames":{"$ref":"#/$defs/s"},"$defs":{"s":{"allOf":[{"$ref":"#/$defs/s"}]}}}"##;
    for schema in [circle, circles, dynamic, names] {
        table(schema, &[(r#"{"a":1}"#, DEEP)]);
    }
    // A chain of references, as long as a schema may be.
    let mut chain = String::from(r##"{"$ref":"#/$defs/0","$defs":{"##);
    for n in 0..20_000 {
        write!(chain, "\"{n}\":{{\"$ref\":\"#/$defs/{}\"}},", n + 1).unwrap();
    }
    table(&(chain + "\"20000\":true}}"), &[("1", DEEP)]);
    // Two ways at each of 60 crossings.
    let mut doubling = String::from(r##"{"$ref":"#/$defs/0","$defs":{"##);
    for n in 0..60 {
        let next = format!("{{\"$ref\":\"#/$defs/{}\"}}", n + 1);
        write!(doubling, "\"{n}\":{{\"allOf\":[{next},{next}]}},").unwrap();
    }
    table(&(doubling + "\"60\":true}}"), &[("1", LONG)]);
    // The same, once for each level of the value.
    let tree = r##"{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}],"unevaluatedItems":false}"##;
    table(tree, &[(&format!("{}{}", "[".repeat(60), "]".repeat(60)), LONG)]);
    // A price for each name, text and number, however long.
    let every = format!(
        r#"{{"allOf":[{}true]}}"#,
        r#"{"uniqueItems":true,"minProperties":1,"properties":{"a":true}},"#.repeat(15_000)
    );
    let members: Vec<String> = (0..2_000).map(|n| format!("\"{n}\":1")).collect();
    table(&every, &[(&format!("{{{}}}", members.join(",")), LONG)]);
    let unique = format!(r#"{{"allOf":[{}true]}}"#, r#"{"uniqueItems":true},"#.repeat(500));
    let items: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    table(&unique, &[(&format!("[{}]", items.join(",")), LONG)]);
    let numbers = format!(r#"{{"allOf":[{}true]}}"#, r#"{"type":"number"},"#.repeat(50_000));
    table(&numbers, &[(&"1".repeat(20_000), LONG)]);
    let patterns = format!(r#"{{"allOf":[{}true]}}"#, r#"{"pattern":"^(x+x+)+$"},"#.repeat(40_000));
    table(&patterns, &[(&format!("\"{}\"", "x".repeat(2_000)), LONG)]);
    let many: Vec<String> = (0..501).map(|n| format!("{{\"pattern\":\"{n}\"}}")).collect();
    assert_eq!(refused(&format!("{{\"allOf\":[{}]}}", many.join(","))), "it has more than 500 patterns");
    // Names on names: each is resolved once, and a long one is refused.
    assert!(refused(&json!({"$id": "x".repeat(3000)}).to_string()).contains("longer than 2048"));
    let gaps = read(r#"{"pattern":"(?=a)","patternProperties":{"\\1":false},"additionalProperties":false}"#);
    assert_eq!(gaps.gaps().len(), 2);
    assert_eq!(told(&gaps, r#"{"b":1}"#), "");
}

const BITS: &[&str] = &[
    "true",
    "false",
    "{}",
    "[]",
    "null",
    "1",
    "-0.0",
    "1e400",
    "\"#\"",
    "\"^a+$\"",
    "\"(?=\"",
    "\"type\"",
    "\"object\"",
    r##"{"$ref":"#"}"##,
    r##"{"$ref":"#/not"}"##,
    r##"{"$ref":"#/%25/~1"}"##,
    r##"{"$dynamicRef":"#a"}"##,
    r#"{"$anchor":"a"}"#,
    r#"["a","b"]"#,
    r#"{"a":[]}"#,
];
const WORDS: &[&str] = &[
    "$id",
    "$ref",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$defs",
    "definitions",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "contains",
    "minContains",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "unevaluatedItems",
    "unevaluatedProperties",
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "minLength",
    "pattern",
    "uniqueItems",
    "required",
];

/// Bits of schemas put together at random, the same in each run: whatever comes of it, it comes soon and is no panic.
#[test]
fn random_schemas_and_values_end() {
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let (mut taken, mut all) = (0, 0);
    let mut pool: Vec<String> = BITS.iter().map(|bit| (*bit).to_owned()).collect();
    for _ in 0..4_000 {
        let members: Vec<String> =
            (0..=next(3)).map(|_| format!("\"{}\":{}", WORDS[next(WORDS.len())], pool[next(pool.len())])).collect();
        let made = match next(4) {
            0 => format!("[{},{}]", pool[next(pool.len())], pool[next(pool.len())]),
            _ => format!("{{{}}}", members.join(",")),
        };
        let value = Json::trusted(pool[next(pool.len())].clone());
        all += 1;
        if let Ok(schema) = Schema::read(&Json::trusted(made.clone())) {
            taken += 1;
            drop(schema.check(&value));
        }
        if made.len() < 4_000 {
            let at = next(400);
            if at < pool.len() { pool[at] = made } else { pool.push(made) }
        }
    }
    assert!(taken > all / 20, "{taken} of {all} are schemas");
}
