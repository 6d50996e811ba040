// The C++ core of runtime.Plan: a list of launches over slots, run without Python between them.
//
// Built by runtime/extension.py, filled by runtime/instance.py. It knows tensors and dispatcher operators; it knows no graph.

#include "arena.h"
#include "instance.h"
#include "replay.h"

#include <memory>
#include <utility>

using namespace torchair;

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  // A thread of lanes keeps its Python state: an error that Python set there is not lost when the GIL is given back.
  LanePool::default_prepare() = [] {
    PyGILState_Ensure();
    PyEval_SaveThread();
  };
  module.def("lane_threads", [] { return LanePool::of_process().threads(); });
  py::class_<Arena, std::shared_ptr<Arena>>(module, "Arena")
      .def(py::init<>())
      .def("reserve", &Arena::reserve)
      .def_property_readonly("nbytes", &Arena::nbytes)
      .def_property_readonly("storage_id", &Arena::storage_id)
      .def_property_readonly("generation", [](const Arena&) { return Arena::generation(); });
  py::class_<PlanInstance>(module, "PlanInstance")
      .def(py::init<size_t, size_t, std::shared_ptr<Arena>, bool>())
      .def("hold", &PlanInstance::hold)
      .def("hold_buffer", &PlanInstance::hold_buffer)
      .def("describe", &PlanInstance::describe)
      .def("hold_views", &PlanInstance::hold_views)
      .def("hold_item", &PlanInstance::hold_item)
      .def("place", &PlanInstance::place)
      .def("use_one_lane", &PlanInstance::use_one_lane)
      .def("delay_steps", &PlanInstance::delay_steps)
      .def("time_steps", &PlanInstance::time_steps)
      .def_property_readonly("times", &PlanInstance::times)
      .def("add_call", &PlanInstance::add_call)
      .def("add_item", &PlanInstance::add_item)
      .def("add_callback", &PlanInstance::add_callback)
      .def("add_native", &PlanInstance::add_native)
      .def("add_kept_view", &PlanInstance::add_kept_view)
      .def("watch", &PlanInstance::watch)
      .def("finish", &PlanInstance::finish)
      .def("run", torch::wrap_pybind_function(py::overload_cast<const py::list&>(&PlanInstance::run)))
      .def_property_readonly("failed", &PlanInstance::failed)
      .def_property_readonly("launches", &PlanInstance::launches);
  py::class_<Entry, std::shared_ptr<Entry>>(module, "Entry")
      .def(py::init<py::object>())
      .def("point", &Entry::point)
      .def("clear", &Entry::clear)
      .def_property_readonly("used", &Entry::used)
      .def("callable", [](std::shared_ptr<Entry> entry, py::object otherwise, std::vector<size_t> written) {
        return new_replay(std::move(entry), std::move(otherwise), std::move(written));
      });
}
