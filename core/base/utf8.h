// Makes text from models and files safe to print. It may be invalid UTF-8 or contain characters that control a terminal
// or a parser.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace memtune {

// Whether the byte is one of a character after its first.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Replaces every byte that belongs to no character with U+FFFD.
std::string valid_utf8(std::string_view text);

// valid_utf8() with control characters replaced by `escape` of them, except `kept`. That covers control characters,
// line separators of any reader (U+0085, U+2028, U+2029), bidirectional marks, and U+FFFE and U+FFFF, which YAML
// forbids.
std::string with_escapes(std::string_view text, char kept, const std::function<std::string(char32_t)>& escape);

// For terminals: replaces these characters with U+FFFD, except line feeds.
std::string printable(std::string_view text);

// For text that must stay on one line, on a terminal or in a source comment: also replaces line feeds.
std::string printable_line(std::string_view text);

}  // namespace memtune
