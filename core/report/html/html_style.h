// Looks and behaviour of the HTML report. Colors are those of Okabe and Ito, which people with any kind of color vision
// can tell apart; light or dark as the reader's system is, light on paper.
#pragma once

namespace memtune::report {

extern const char* const kHtmlStyle;
extern const char* const kHtmlScript;  // sorts the table by a column that is clicked

}  // namespace memtune::report
