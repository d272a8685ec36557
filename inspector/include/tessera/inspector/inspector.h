// SPDX-License-Identifier: Apache-2.0
// The trace viewer: a window, or a picture without a display.
//
// The idea: both show the same panels over the same trace file; a screenshot is the window's first
// view, drawn by a software rasteriser, the same to the bit on every machine of one make.
//
//   Status status = screenshot({.path = "run.tessera", .width = 1920, .height = 1080}, "run.png");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::inspector {

enum class ThemeKind : std::uint8_t { dark, light };

/// What can fill the screen, in the order of the tabs: "overview" (all ranks), "all" (the opened
/// rank's timeline with memory and details), "timeline", "memory", "communication" (of the
/// opened rank, by process group), "findings" (what is wrong), "path"
/// (the critical path of the step in view), "compare" (with another run), "holders" (who
/// holds memory), "model" (modules over time), "query" (questions in SQL).
std::vector<std::string> panel_names();

struct InspectOptions {
  std::string path;  // a trace file; "": the page that opens one
  // What is not set is as the window had it last, by `layout_file`; in pictures, and the first
  // time, 1920 x 1080 px, dark, at scale 1.
  int width = 0;  // px; 0: not set
  int height = 0;
  std::optional<ThemeKind> theme;
  std::optional<float> scale;                 // of text and all else, 0.5 to 3
  std::string panel = "all";                  // one of panel_names()
  std::string beside;                         // a second one beside it; "": as it was last
  std::string below;                          // or below it; not both
  std::optional<std::pair<Time, Time>> time;  // the range to show, ns, within the run; default:
                                              // the last step, or where the run failed
  std::optional<Rank> rank;                   // the rank to open; default: the slowest
  std::string against;                        // another trace file, to compare with; "": none
  std::string query;        // SQL that the panel "query" asks first; "": one of its own
  std::string traces;       // the folder of the examples that the first page offers; "": none
  std::string recent_file;  // where names of opened traces are kept; "": nowhere
  std::string layout_file;  // where it is kept how the window looked last; "": nowhere
};

/// The file to show for `path`: of a recording under way, whose name is not there yet, its
/// ".partial"; otherwise `path`.
std::string trace_file(const std::string& path);

/// The traces that a name means: one, or both that a file of `tessera compare --json` is about.
struct NamedTraces {
  std::string path, against;  // `against` "": a single one
};
/// Fails: invalid_argument (JSON that is no comparison, or of a trace that is gone), io_error.
Result<NamedTraces> named_traces(const std::string& path);

/// Opens a window and returns when it is closed. A recording that goes on is followed: what is
/// added to it appears.
/// Fails: what TraceReader::open fails with; invalid_argument (a range that is empty or not within
/// the run, a rank that was not recorded, an unknown panel, "compare" without another run, one
/// panel twice); not_supported (no display).
Status inspect(const InspectOptions& options);

/// Writes the picture to `png_path`. Needs no display.
/// Fails: as `inspect`; what `InspectOptions::query` fails with; io_error, naming the picture.
Status screenshot(const InspectOptions& options, const std::string& png_path);

}  // namespace tessera::inspector
