// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "exchange/export/exporter.h"
#include "exchange/export/output_file.h"

namespace tessera::exchange {
namespace {

/// As RFC 4180 has it: in quotes where it has to be.
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

class Csv final : public Exporter {
 public:
  Csv(const analysis::Trace& trace, const std::string& out, OutputFile file)
      : trace_(trace), out_(out), file_(std::move(file)) {}

  Status begin() override {
    file_.write(
        "rank,stream,op,kind,step,micro_batch,phase,reason,unit,module,label,group,group_size,"
        "bytes,dtype,algorithm,flops,begin_ns,ready_ns,end_ns\n");
    return {};
  }

  Status span(const ExportedSpan& span) override {
    const storage::OpRow& op = *span.op;
    const auto* const group = trace_.communicator(op);
    file_.write(fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.17g},{},{},{}\n", span.rank,
        cell(span.stream->name), op.id, name_of(op.kind), op.step, op.micro_batch,
        name_of(op.phase), name_of(op.reason), cell(op.unit), cell(op.module), cell(op.label),
        cell(group == nullptr ? "" : group->name),
        group == nullptr ? "" : fmt::format("{}", group->group_size), op.bytes.value,
        name_of(op.dtype), cell(op.algorithm), op.flops, span.begin, span.ready, span.end));
    return {};
  }

  Status finish(Exported& done) override {
    done.files.push_back(out_);
    return file_.finish();
  }

 private:
  const analysis::Trace& trace_;
  const std::string out_;
  OutputFile file_;
};

}  // namespace

Result<std::unique_ptr<Exporter>> csv_exporter(const analysis::Trace& trace, const std::string& out,
                                               Rank) {
  TESSERA_ASSIGN(OutputFile file, OutputFile::create(out));
  return std::unique_ptr<Exporter>(std::make_unique<Csv>(trace, out, std::move(file)));
}

}  // namespace tessera::exchange
