// Names of models and files need not be UTF-8; what is written for browsers and Python has to be.
#pragma once

#include <string>
#include <string_view>

namespace memtune {

// Every byte that belongs to no character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// What may stand on a terminal: valid, and control characters (escape sequences begin with one) become U+FFFD too, but
// for the ends of lines.
std::string printable(std::string_view text);

// The same for what has to stay on its line: ends of lines too.
std::string printable_line(std::string_view text);

}  // namespace memtune
