"""What an author is shown of a compiler's output. The outputs are those of g++ 12 and clang++ 14."""

from __future__ import annotations

from torchair.build import Diagnostic, read_diagnostics


def test_an_error_with_the_line_and_the_marks() -> None:
    text = """\
op_kernel/my_op.cpp: In function 'void {anonymous}::my_op(const torchair::Tensor&)':
op_kernel/my_op.cpp:12:5: error: 'foo' was not declared in this scope; did you mean 'for'?
   12 |     foo(x);
      |     ^~~
      |     for
op_kernel/my_op.cpp:13:7: warning: unused variable 'y' [-Wunused-variable]
   13 |   int y;
      |       ^
op_kernel/my_op.cpp:20: error: expected '}' at end of input
"""
    first = Diagnostic(
        "op_kernel/my_op.cpp:12:5",
        "'foo' was not declared in this scope; did you mean 'for'?",
        ("   12 |     foo(x);", "      |     ^~~", "      |     for"),
    )
    assert read_diagnostics(text) == (first, Diagnostic("op_kernel/my_op.cpp:20", "expected '}' at end of input"))
    assert str(first).splitlines()[0] == (
        "op_kernel/my_op.cpp:12:5: 'foo' was not declared in this scope; did you mean 'for'?"
    )


def test_a_template_that_fails_for_each_type_is_one_error() -> None:
    error = "op_kernel/a.cpp:7:24: error: 'class Span<{}>' has no member named 'foo'\n    7 | x.foo();\n      |   ^~~\n"
    found = read_diagnostics(error.format("float") + error.format("double"))
    assert [str(e) for e in found] == [error.format("float").replace("error: ", "", 1).rstrip("\n")]


def test_gcc_tells_the_author_s_line_before_an_error_in_a_header() -> None:
    text = """\
In file included from op_kernel/my_op.cpp:1:
/lib/torchair/kernel.h: In instantiation of 'struct torchair::detail::schema_type<float>':
/lib/torchair/kernel.h:144:39:   required from 'torchair::detail::Function<R> torchair::detail::erase(...)'
op_kernel/my_op.cpp:31:1:   required from here
/lib/torchair/kernel.h:90:17: error: static assertion failed: a parameter has a type that stands for none
   90 |   static_assert(!std::is_same_v<T, T>, "a parameter ...");
      |                 ^~~
/lib/torchair/kernel.h:145:118: error: could not convert '{<expression error>}'
"""
    assert read_diagnostics(text) == (
        Diagnostic(
            "op_kernel/my_op.cpp:31:1",
            "static assertion failed: a parameter has a type that stands for none (in kernel.h:90)",
        ),
    )


def test_clang_tells_it_in_a_note_after_the_error() -> None:
    text = """\
In file included from op_kernel/my_op.cpp:1:
/lib/torchair/kernel.h:90:3: error: static_assert failed "a parameter has a type that stands for none"
  static_assert(!std::is_same_v<T, T>, "a parameter ...");
  ^             ~~~~~~~~~~~~~~~~~~~~~
/lib/torchair/kernel.h:144:22: note: in instantiation of template class 'schema_type<float>' requested here
op_kernel/my_op.cpp:31:1: note: in instantiation of function template specialization 'erase<void, float>' requested here
"""
    assert [str(e) for e in read_diagnostics(text)] == [
        'op_kernel/my_op.cpp:31:1: static_assert failed "a parameter has a type that stands for none" (in kernel.h:90)'
    ]


def test_a_header_of_the_author_and_a_missing_one() -> None:
    text = """\
In file included from op_kernel/my_op.cpp:3:
op_kernel/mine.h:2:10: fatal error: absent.h: No such file or directory
    2 | #include <absent.h>
      |          ^~~~~~~~~~
compilation terminated.
"""
    (error,) = read_diagnostics(text)
    assert (error.where, error.message) == ("op_kernel/mine.h:2:10", "absent.h: No such file or directory")


def test_output_without_errors() -> None:
    assert read_diagnostics("") == ()
    assert read_diagnostics("a.cpp:1:2: warning: unused variable 'x'\n/usr/bin/ld: cannot find -lc11\n") == ()
