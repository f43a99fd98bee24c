"""Partition transforms under the module name of PyIceberg: `from icefloe.transforms import DayTransform`."""

from icefloe.spec.partitioning.transforms import BucketTransform as BucketTransform
from icefloe.spec.partitioning.transforms import DayTransform as DayTransform
from icefloe.spec.partitioning.transforms import HourTransform as HourTransform
from icefloe.spec.partitioning.transforms import IdentityTransform as IdentityTransform
from icefloe.spec.partitioning.transforms import MonthTransform as MonthTransform
from icefloe.spec.partitioning.transforms import Transform as Transform
from icefloe.spec.partitioning.transforms import TruncateTransform as TruncateTransform
from icefloe.spec.partitioning.transforms import UnknownTransform as UnknownTransform
from icefloe.spec.partitioning.transforms import VoidTransform as VoidTransform
from icefloe.spec.partitioning.transforms import YearTransform as YearTransform
from icefloe.spec.partitioning.transforms import parse_transform as parse_transform
