// Small text functions shared by parsers and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memtune {

// Splits at every `separator`. Parts are not trimmed; "" gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);

std::string trim(std::string_view text);

std::string join(std::span<const std::string> parts, std::string_view separator);

// Insertions, deletions and replacements of letters; two swapped neighbours count as one change.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `text` abbreviates ("ce": cross_entropy), else the one with the smallest edit distance. Returns ""
// if that distance exceeds max(2, length / 3), or 1 for up to three letters, or if no character matches in place.
std::string nearest(std::string_view text, std::span<const std::string> candidates);

// "unknown <kind> 'txet'; did you mean 'text'? Known: a, b, text". All errors for unknown names use this wording.
std::string unknown_name(std::string_view kind, std::string_view text, std::span<const std::string> known);

// Shell-like match of a dotted module path. '*' matches within one dot-separated part, '?' one character of it.
// "layers.*" matches "layers.0" but not "layers.0.attn".
bool glob_match(std::string_view pattern, std::string_view path);

// Letters, in lower case, and digits; anything between them is one dash: "checkpoint:full,inputs=host" gives
// "checkpoint-full-inputs-host". At most `length` characters.
std::string dashed(std::string_view text, size_t length);

// Replaces numeric parts with '*': "layers.3.w1" gives "layers.*.w1".
std::string without_numbers(std::string_view path);

// Parse the whole string as a decimal integer or a finite number. Throw UsageError that names `what` otherwise.
int64_t parse_integer(std::string_view text, std::string_view what);
double parse_number(std::string_view text, std::string_view what);

}  // namespace memtune
