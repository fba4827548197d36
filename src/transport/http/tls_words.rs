//! What a fault of TLS means, and what helps against it. Pure.
#![allow(clippy::wildcard_enum_match_arm, reason = "what is not named here has rustls's own words")]

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// A clause for a person; `told` is the server or the proxy.
pub(super) fn words(error: &Error, told: &str) -> String {
    match error {
        Error::InvalidCertificate(fault) => certificate(fault, told),
        Error::AlertReceived(alert) => {
            alert_words(*alert, told).unwrap_or_else(|| format!("{told} refused the handshake ({alert:?})"))
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            format!("{told} does not speak TLS there; is its URL http://?")
        }
        other => format!("{told}: {other}"),
    }
}

/// An alert that comes after the client's part of the handshake and says that the handshake failed.
pub(super) fn refused_later(error: &Error, told: &str) -> Option<String> {
    match error {
        Error::AlertReceived(alert) => alert_words(*alert, told),
        _ => None,
    }
}

fn certificate(fault: &CertificateError, told: &str) -> String {
    match fault {
        CertificateError::UnknownIssuer => {
            format!("the certificate of {told} is from an unknown issuer; give its CA in settings.tls.ca_file")
        }
        CertificateError::BadSignature => format!(
            "the certificate of {told} is not signed by the CA of that name in settings.tls; was the CA made anew?"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of {told} has expired (or this machine's clock is wrong)")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of {told} is not valid yet (or this machine's clock is wrong)")
        }
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            let names: Vec<&str> = presented.iter().take(5).map(String::as_str).collect();
            format!("the certificate of {told} is for another name ({})", names.join(", "))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate of {told} is for another name")
        }
        CertificateError::Revoked => format!("the certificate of {told} was revoked"),
        other => format!("the certificate of {told} is not accepted: {other}"),
    }
}

fn alert_words(alert: AlertDescription, told: &str) -> Option<String> {
    match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => Some(format!(
            "{told} asks for a client certificate; give settings.tls.client_cert_file and client_key_file"
        )),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => {
            Some(format!("{told} does not accept the client certificate of settings.tls ({alert:?})"))
        }
        AlertDescription::HandshakeFailure => Some(format!(
            "{told} refused the handshake (HandshakeFailure): it may ask for a client certificate (settings.tls), or \
             speak no TLS version or cipher that this client speaks"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_says_what_helps() {
        let cert = Error::InvalidCertificate;
        let rows = [
            (cert(CertificateError::UnknownIssuer), "unknown issuer; give its CA in settings.tls.ca_file"),
            (cert(CertificateError::BadSignature), "was the CA made anew?"),
            (cert(CertificateError::Expired), "has expired"),
            (cert(CertificateError::NotValidYet), "is not valid yet"),
            (cert(CertificateError::NotValidForName), "is for another name"),
            (cert(CertificateError::Revoked), "was revoked"),
            (cert(CertificateError::BadEncoding), "is not accepted: "),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "asks for a client certificate"),
            (Error::AlertReceived(AlertDescription::UnknownCA), "does not accept the client certificate"),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), "may ask for a client certificate"),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), "refused the handshake (ProtocolVersion)"),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "does not speak TLS"),
            (Error::DecryptError, "https://h:1: cannot decrypt"),
        ];
        for (error, want) in rows {
            let text = words(&error, "https://h:1");
            assert!(text.contains(want) && text.contains("https://h:1"), "{error:?}: {text}");
        }
    }

    #[test]
    fn only_an_alert_about_the_handshake_says_that_the_request_was_not_read() {
        for (alert, want) in [
            (AlertDescription::CertificateRequired, true),
            (AlertDescription::UnknownCA, true),
            (AlertDescription::InternalError, false),
            (AlertDescription::CloseNotify, false),
            (AlertDescription::BadRecordMac, false),
        ] {
            assert_eq!(refused_later(&Error::AlertReceived(alert), "h").is_some(), want, "{alert:?}");
        }
        assert!(refused_later(&Error::DecryptError, "h").is_none());
    }
}
