"""An OpenTelemetry SDK of one test's own: what it was told, as plain data."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Telemetry:
    """Takes the place of the global providers, which can be set once a process."""

    def __init__(self) -> None:
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self._exporter = InMemorySpanExporter()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.tracers.get_tracer("the application")

    def spans(self) -> list[ReadableSpan]:
        """Return the spans that ended since they were last asked for, in the order of their ends."""
        ended = list(self._exporter.get_finished_spans())
        self._exporter.clear()
        return ended

    def span(self) -> ReadableSpan:
        """Return the only one."""
        (only,) = self.spans()
        return only

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the attributes and the data point of each series of a metric."""
        data = self._reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def count(self, name: str, **attributes: object) -> int:
        """Return how often a histogram was recorded with these attributes, where ``_`` stands for a dot."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}
        points = [point for found, point in self.points(name) if wanted.items() <= found.items()]
        return sum(int(point.count) for point in points)

    def total(self, name: str, **attributes: object) -> float:
        """Return the sum of a counter or a histogram over series with these attributes."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}
        points = [point for found, point in self.points(name) if wanted.items() <= found.items()]
        return sum(float(point.sum if hasattr(point, "sum") else point.value) for point in points)

    def everything_told(self) -> str:
        """Return all that would leave the process, as text."""
        data = self._reader.get_metrics_data()
        told = [json.loads(span.to_json()) for span in self._exporter.get_finished_spans()]
        return json.dumps(told, ensure_ascii=False) + (data.to_json() if data else "")


def set_up(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    """Have the library tell a telemetry of its own."""
    gc.collect()  # objects on pools of other tests, which need not be closed, would be told of
    telemetry = Telemetry()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: telemetry.tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: telemetry.meters)
    return telemetry
