// Style and script of the HTML report. Colors are those of Okabe and Ito, distinguishable with any color vision. The
// theme follows the reader's system; printing uses the light one.
#pragma once

namespace memtune::report {

extern const char* const kHtmlStyle;
extern const char* const kHtmlScript;  // sorts the table when a column head is clicked

}  // namespace memtune::report
