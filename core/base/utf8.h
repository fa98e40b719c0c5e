// Names of models and files need not be UTF-8; what is written for others has to be, and nothing in it may act on them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace memtune {

// Every byte that belongs to no character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// valid_utf8(), with `escape` of each character in it that a reader may act on instead of showing it, but for `kept`:
// controls, what ends a line for any reader (U+0085, U+2028 and U+2029 too), what turns the direction of text, and
// U+FFFE and U+FFFF, which no YAML has.
std::string with_escapes(std::string_view text, char kept, const std::function<std::string(char32_t)>& escape);

// What may stand on a terminal: such characters become U+FFFD, but for line feeds.
std::string printable(std::string_view text);

// What has to stay on its line, on a terminal and in comments of any language: line feeds become U+FFFD too.
std::string printable_line(std::string_view text);

}  // namespace memtune
