//! The typed reading of a tool's result (`server/tools`, "Tool Result"): what every program needs, made on demand from
//! the text, once.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use once_cell::sync::OnceCell;

use crate::protocol::json::{Json, Members};

/// The kinds of a content block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A kind that no revision knows; its JSON is there all the same.
    Other,
    /// `text`.
    Text,
    /// `image`, Base64.
    Image,
    /// `audio`, Base64.
    Audio,
    /// `resource_link`.
    ResourceLink,
    /// `resource`, text or Base64 embedded.
    Resource,
}

/// A block of content.
#[derive(Debug)]
pub struct Block {
    /// Its kind.
    pub kind: BlockKind,
    /// The block as sent.
    pub json: Json,
    /// The text of a text block or of an embedded text resource.
    pub text: Option<String>,
    bytes: OnceCell<Option<Vec<u8>>>,
}

impl Block {
    fn read(json: Json) -> Self {
        let members = json.members().unwrap_or_default();
        let kind = match members.text("type").as_deref() {
            Some("text") => BlockKind::Text,
            Some("image") => BlockKind::Image,
            Some("audio") => BlockKind::Audio,
            Some("resource_link") => BlockKind::ResourceLink,
            Some("resource") => BlockKind::Resource,
            _ => BlockKind::Other,
        };
        let text = match kind {
            BlockKind::Text => members.string("text"),
            BlockKind::Resource => members.some("resource").and_then(|raw| Members::parse(raw).ok()?.string("text")),
            BlockKind::Other | BlockKind::Image | BlockKind::Audio | BlockKind::ResourceLink => None,
        };
        Self { kind, json, text, bytes: OnceCell::new() }
    }

    /// The bytes of an image, a sound or an embedded binary resource; `None` where there are none or they are no
    /// Base64.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get_or_init(|| self.decode()).as_deref()
    }

    fn decode(&self) -> Option<Vec<u8>> {
        let members = Members::parse(self.json.text()).ok()?;
        let encoded = match self.kind {
            BlockKind::Image | BlockKind::Audio => members.some("data"),
            BlockKind::Resource => members.some("resource").and_then(|raw| Members::parse(raw).ok()?.some("blob")),
            BlockKind::Other | BlockKind::Text | BlockKind::ResourceLink => None,
        }?;
        let encoded: Cow<'_, str> = serde_json::from_str(encoded).ok()?;
        STANDARD.decode(encoded.as_bytes()).ok()
    }
}

/// What of a tool's result a schema speaks of: `isError`, and `structuredContent`, which may be any value, also null.
#[must_use]
pub fn structured_part(result: &Json) -> (bool, Option<Json>) {
    let members = result.members().unwrap_or_default();
    let value = members.raw("structuredContent").map(|raw| result.slice(raw));
    (members.boolean("isError").unwrap_or(false), value)
}

/// A result, immutable, read on demand.
#[derive(Debug)]
pub struct ResultView {
    json: Json,
    parts: OnceCell<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    is_error: bool,
    blocks: Vec<Block>,
    /// Where there is more than one text.
    joined: Option<String>,
    structured: Option<Json>,
}

impl ResultView {
    /// A view of this result object.
    #[must_use]
    pub fn new(json: Json) -> Self {
        Self { json, parts: OnceCell::new() }
    }

    /// The result as sent.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The tool's own `isError`.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.parts().is_error
    }

    /// The content blocks; none where there is no `content`.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.parts().blocks
    }

    /// The texts of the text blocks, joined by line feeds; `None` where there is no text block.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let parts = self.parts();
        parts.joined.as_deref().or_else(|| texts(&parts.blocks).next())
    }

    /// `structuredContent`.
    #[must_use]
    pub fn structured(&self) -> Option<&Json> {
        self.parts().structured.as_ref()
    }

    fn parts(&self) -> &Parts {
        self.parts.get_or_init(|| {
            let members = self.json.members().unwrap_or_default();
            let content = members.some("content").and_then(|raw| self.json.slice(raw).elements().ok());
            let blocks: Vec<Block> = content.unwrap_or_default().into_iter().map(Block::read).collect();
            let texts: Vec<&str> = texts(&blocks).collect();
            Parts {
                is_error: members.boolean("isError").unwrap_or(false),
                joined: (texts.len() > 1).then(|| texts.join("\n")),
                structured: members.some("structuredContent").map(|raw| self.json.slice(raw)),
                blocks,
            }
        })
    }
}

fn texts(blocks: &[Block]) -> impl Iterator<Item = &str> {
    blocks.iter().filter(|block| block.kind == BlockKind::Text).filter_map(|block| block.text.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_kind_are_read() {
        let view = ResultView::new(
            Json::parse(
                r#"{"isError":true,"structuredContent":{"n":9007199254740993},"content":[
                {"type":"text","text":"a\u00e9"},{"type":"image","data":"AQID","mimeType":"image/png"},
                {"type":"audio","data":"!!"},{"type":"resource","resource":{"uri":"u","text":"t"}},
                {"type":"resource","resource":{"uri":"u","blob":"BAU="}},{"type":"resource_link","uri":"u"},
                {"type":"hologram"},{"type":"text","text":"b"},5]}"#,
            )
            .unwrap(),
        );
        assert!(view.is_error());
        assert_eq!(view.text(), Some("aé\nb"));
        assert_eq!(view.structured().unwrap().text(), r#"{"n":9007199254740993}"#);
        let kinds: Vec<_> = view.blocks().iter().map(|b| b.kind).collect();
        use BlockKind::*;
        assert_eq!(kinds, [Text, Image, Audio, Resource, Resource, ResourceLink, Other, Text, Other]);
        assert_eq!(view.blocks()[1].bytes(), Some(&[1u8, 2, 3][..]));
        assert_eq!(view.blocks()[2].bytes(), None);
        assert_eq!(view.blocks()[3].text.as_deref(), Some("t"));
        assert_eq!(view.blocks()[4].bytes(), Some(&[4u8, 5][..]));
    }

    #[test]
    fn a_result_without_content_is_empty() {
        let view = ResultView::new(Json::trusted(r#"{"content":7}"#));
        assert!(!view.is_error() && view.blocks().is_empty() && view.text().is_none() && view.structured().is_none());
    }
}
