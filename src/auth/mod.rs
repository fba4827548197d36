//! Signing in: discovery, registration, grants, token store, proofs. Empty so far: until it is built, credentials come
//! from the host as `headers` of the settings, and a 401 or 403 ends a call as *authorization required* or *denied*.
//!
//! Belongs here: RFC 9728 and RFC 8414 discovery, client registration, PKCE, refresh, the store of tokens per issuer,
//! DPoP. Flows are machines (reply and time in, next request out); a secret is a type with its own `Debug`.
