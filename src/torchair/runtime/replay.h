// The function that Dynamo calls: finds a free arena and the instance over it, and runs, all without Python.

#pragma once

#include "instance.h"

#include <structmember.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace torchair {

// What the calls of a graph replay at once. Touched with the GIL only.
class Entry {
 public:
  // `runs`: an iterator of numbers that orders all runs of the process.
  explicit Entry(py::object runs) : runs_(std::move(runs)) {}

  // From now on run the instance over an arena that is free: `instances` are by arena.
  void point(py::list free, py::dict instances) {
    clear();
    free_ = std::move(free);
    instances_ = std::move(instances);
  }

  // From now on leave all calls to others.
  void clear() {
    free_ = py::object();
    instances_ = arena_ = instance_ = py::object();
    plan_ = nullptr;
  }

  // The number of the last run; None where there was none.
  py::object used() const { return used_ ? used_ : py::none(); }

  // A new reference to the results; null without an exception where somebody else has to take the call.
  // `written`: arguments whose versions are incremented, for autograd.
  PyObject* run(PyObject* const* arguments, size_t count, const std::vector<size_t>& written) {
    if (!find()) return nullptr;
    if (!written.empty() && guarded([&] { return increment_versions(arguments, count, written); }) == nullptr) return nullptr;
    // Other threads may change the entry while this run goes on.
    const py::object free = free_, arena = arena_, instance = instance_;
    auto* const plan = plan_;
    const auto size = PyList_GET_SIZE(free.ptr());
    if (PyList_SetSlice(free.ptr(), size - 1, size, nullptr) != 0) return nullptr;
    used_ = py::reinterpret_steal<py::object>(PyIter_Next(runs_.ptr()));
    auto* const results = guarded([&] { return plan->run(arguments, count).release().ptr(); });
    if (results != nullptr) {
      if (PyList_Append(free.ptr(), arena.ptr()) == 0) return results;
      Py_DECREF(results);
      return nullptr;
    }
    py::error_already_set error;
    PyList_Append(free.ptr(), arena.ptr());
    return guarded([&]() -> PyObject* {
      if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
      instance.attr("explain")(error.value());
      throw error;
    });
  }

 private:
  static PyObject* increment_versions(PyObject* const* arguments, size_t count, const std::vector<size_t>& written) {
    for (auto i : written)
      if (i < count && THPVariable_Check(arguments[i])) THPVariable_Unpack(arguments[i]).unsafeGetTensorImpl()->bump_version();
    return Py_None;  // no new reference: it says that nothing was thrown
  }

  // The arena that is taken next and the instance over it. False where there is none yet.
  bool find() {
    while (free_) {
      const auto size = PyList_GET_SIZE(free_.ptr());
      if (size == 0) return false;
      auto* const arena = PyList_GET_ITEM(free_.ptr(), size - 1);
      if (arena == arena_.ptr()) return true;
      auto* const instance = PyDict_GetItemWithError(instances_.ptr(), arena);
      if (instance == nullptr) {
        PyErr_Clear();
        return false;
      }
      const auto kept = py::reinterpret_borrow<py::object>(arena);
      auto found = py::reinterpret_borrow<py::object>(instance);
      auto* const plan = found.attr("core").cast<PlanInstance*>();  // runs Python: another thread may take the arena
      arena_ = kept;
      instance_ = std::move(found);
      plan_ = plan;
    }
    return false;
  }

  // The result of a function; null, and the exception of Python, where it threw.
  template <typename Function>
  static PyObject* guarded(Function&& function) {
    try {
      torch::PyWarningHandler warnings;
      try {
        return function();
      } catch (...) {
        warnings.set_in_exception();
        throw;
      }
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (...) {
      torch::translate_exception_to_python(std::current_exception());
    }
    return nullptr;
  }

  py::object runs_, used_;
  py::object free_;  // a list
  py::object instances_;
  py::object arena_, instance_;  // of the last run
  PlanInstance* plan_ = nullptr;
};

// A Python function that replays what an entry points to, and calls another function where it points to nothing.
struct Replay {
  PyObject_HEAD
  vectorcallfunc call;
  std::shared_ptr<Entry> entry;
  std::vector<size_t> written;
  PyObject* otherwise;

  static PyObject* vectorcall(PyObject* self, PyObject* const* arguments, size_t count, PyObject* names) {
    auto* const replay = reinterpret_cast<Replay*>(self);
    if (names == nullptr) {
      const auto entry = replay->entry;
      auto* const results = entry->run(arguments, static_cast<size_t>(PyVectorcall_NARGS(count)), replay->written);
      if (results != nullptr || PyErr_Occurred() != nullptr) return results;
    }
    return PyObject_Vectorcall(replay->otherwise, arguments, count, names);
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<Replay*>(self)->otherwise);
    return 0;
  }

  static int clear(PyObject* self) {
    Py_CLEAR(reinterpret_cast<Replay*>(self)->otherwise);
    return 0;
  }

  static void dealloc(PyObject* self) {
    auto* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    reinterpret_cast<Replay*>(self)->entry.~shared_ptr();
    reinterpret_cast<Replay*>(self)->written.~vector();
    type->tp_free(self);
    Py_DECREF(type);
  }
};

inline PyTypeObject* replay_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Replay, call), READONLY, nullptr}, {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(Replay::dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(Replay::traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(Replay::clear)},
      {Py_tp_members, members},
      {0, nullptr}};
  static PyType_Spec spec{"torchair.Replay", sizeof(Replay), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw py::error_already_set();
  return type;
}

inline py::object new_replay(std::shared_ptr<Entry> entry, py::object otherwise, std::vector<size_t> written) {
  auto* const type = replay_type();
  auto* const replay = reinterpret_cast<Replay*>(type->tp_alloc(type, 0));
  if (replay == nullptr) throw py::error_already_set();
  replay->call = Replay::vectorcall;
  new (&replay->entry) std::shared_ptr<Entry>(std::move(entry));
  new (&replay->written) std::vector<size_t>(std::move(written));
  replay->otherwise = otherwise.release().ptr();
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(replay));
}

}  // namespace torchair
