/* Just enough JSON for the driver: a value is a slice of the text that it came in, so what is passed back is passed back
 * byte for byte. It reads what the library has already checked; a slice with a NULL is a value that is not there. */
#ifndef JSON_H
#define JSON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at;
    size_t length;
} json;

static json json_of(const char *text, size_t length) { return (json){text, text ? length : 0}; }

static const char *json_blank(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n:,", *p))
        p++;
    return p;
}

/* The end of the value that starts at p. */
static const char *json_end(const char *p, const char *end)
{
    int depth = 0;
    do {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                p += *p == '\\';
            p++;
        } else if (*p == '{' || *p == '[') {
            depth++, p++;
        } else if (*p == '}' || *p == ']') {
            depth--, p++;
        } else if (depth > 0) {
            p++;
        } else {
            while (p < end && !strchr(" \t\r\n,]}", *p))
                p++;
        }
    } while (p < end && depth > 0);
    return p < end ? p : end;
}

static json json_take(const char **p, const char *end)
{
    const char *from = json_blank(*p, end);
    if (from >= end || *from == '}' || *from == ']')
        return (json){NULL, 0};
    *p = json_end(from, end);
    return (json){from, (size_t)(*p - from)};
}

/* The next element of an array, or the next member of an object (key: its key, in quotes). *cursor begins as NULL. */
static int json_next(json of, const char **cursor, json *key, json *value)
{
    const char *end = of.at + of.length;
    if (!of.at || (*of.at != '{' && *of.at != '['))
        return 0;
    if (!*cursor)
        *cursor = of.at + 1;
    if (*of.at == '{')
        *key = json_take(cursor, end);
    *value = json_take(cursor, end);
    return value->at != NULL;
}

static json json_get(json of, const char *name)
{
    json key = {NULL, 0}, value;
    const char *cursor = NULL;
    while (json_next(of, &cursor, &key, &value))
        if (key.at && key.length == strlen(name) + 2 && memcmp(key.at + 1, name, key.length - 2) == 0)
            return value;
    return (json){NULL, 0};
}

static int json_is(json value, const char *raw)
{
    return value.at && value.length == strlen(raw) && memcmp(value.at, raw, value.length) == 0;
}

static size_t json_utf8(char *out, uint32_t c)
{
    if (c < 0x80)
        return out[0] = (char)c, 1;
    if (c < 0x800)
        return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return out[0] = (char)(0xE0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63)), 3;
    out[0] = (char)(0xF0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    return out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63)), 4;
}

static uint32_t json_hex4(const char *p)
{
    char digits[5] = {p[0], p[1], p[2], p[3], 0};
    return (uint32_t)strtoul(digits, NULL, 16);
}

/* A string's text, to be freed; NULL for what is no string. */
static char *json_text(json value)
{
    if (!value.at || value.length < 2 || *value.at != '"')
        return NULL;
    char *text = malloc(value.length), *out = text;
    const char *end = value.at + value.length - 1;
    for (const char *p = value.at + 1; p < end; p++) {
        static const char names[] = "bfnrt", meant[] = "\b\f\n\r\t";
        if (*p != '\\') {
            *out++ = *p;
        } else if (*++p == 'u' && end - p > 4) {
            uint32_t c = json_hex4(p + 1);
            p += 4;
            if (c >= 0xD800 && c < 0xDC00 && end - p > 6 && p[1] == '\\' && p[2] == 'u') {
                c = 0x10000 + ((c - 0xD800) << 10) + (json_hex4(p + 3) - 0xDC00);
                p += 6;
            }
            out += json_utf8(out, c);
        } else {
            const char *name = strchr(names, *p);
            *out++ = name ? meant[name - names] : *p;
        }
    }
    *out = 0;
    return text;
}

#endif
