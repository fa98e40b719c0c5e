// Small text tools shared by parsing and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memtune {

// Splits at every `separator`; parts are not trimmed; "" gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);

std::string trim(std::string_view text);

std::string join(std::span<const std::string> parts, std::string_view separator);

// Letters to put in, take out or change; two in the wrong order are one.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `text` abbreviates ("ce": cross_entropy), else the one with the smallest edit distance; "" when
// none is near: distance > max(2, length / 3), > 1 of up to three letters, or no character in place.
std::string nearest(std::string_view text, std::span<const std::string> candidates);

// "unknown <kind> 'txet'; did you mean 'text'? Known: a, b, text": the one wording for unknown names.
std::string unknown_name(std::string_view kind, std::string_view text, std::span<const std::string> known);

// Shell-like match of a dotted module path: '*' matches within one dot-separated part, '?' one character of it.
// "layers.*" matches "layers.0" and not "layers.0.attn".
bool glob_match(std::string_view pattern, std::string_view path);

// "layers.3.w1" is one of "layers.*.w1".
std::string without_numbers(std::string_view path);

// Whole-string decimal integer / finite number; throws UsageError naming `what` when `text` is not one.
int64_t parse_integer(std::string_view text, std::string_view what);
double parse_number(std::string_view text, std::string_view what);

}  // namespace memtune
