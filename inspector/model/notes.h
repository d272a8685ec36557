// SPDX-License-Identifier: Apache-2.0
// Marks that somebody sets in time, each with a line of text, kept beside the trace.
//
// The idea: a trace is never changed, so its notes are a file of their own, "run.tessera.notes", of
// a line for each: the time in ns, a tab, the text. It can be sent along, or written by a script.
#pragma once

#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::inspector {

struct Note {
  Time time = 0;
  std::string text;  // one line, perhaps none
};

class Notes {
 public:
  Notes() = default;
  /// Those beside `trace`, or beside the trace that a recording of that name becomes. Lines that
  /// are no notes are left out, and kept in the file.
  explicit Notes(const std::string& trace);

  const std::vector<Note>& all() const { return notes_; }  // by time
  /// Returns its place. A mark at the same time is that one.
  std::size_t add(Time time);
  /// REQUIRES of both: there is such a place.
  void set_text(std::size_t place, const std::string& text);
  void remove(std::size_t place);
  /// Writes the file beside itself, and renames it; one without notes goes. Fails: io_error.
  Status save() const;

 private:
  std::string path_;
  std::vector<Note> notes_;
  std::vector<std::string> others_;  // lines that are none
};

}  // namespace tessera::inspector
