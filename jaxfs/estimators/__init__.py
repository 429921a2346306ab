"""scikit-learn estimators for the methods of jaxfs."""

from jaxfs.estimators._catalogue import METHODS as METHODS
from jaxfs.estimators._catalogue import Method as Method
from jaxfs.estimators.dirichlet import DirichletGraphSelector as DirichletGraphSelector
from jaxfs.estimators.ensemble import CombinedSelector as CombinedSelector
from jaxfs.estimators.ensemble import StabilitySelector as StabilitySelector
from jaxfs.estimators.filters import FilterSelector as FilterSelector
from jaxfs.estimators.filters import MutualInformation as MutualInformation
from jaxfs.estimators.filters import MutualInformationRegression as MutualInformationRegression
from jaxfs.estimators.gaussian import CanonicalCorrelation as CanonicalCorrelation
from jaxfs.estimators.gaussian import GaussianCompromise as GaussianCompromise
from jaxfs.estimators.gaussian import GaussianKL as GaussianKL
from jaxfs.estimators.manifest import ManiFeSt as ManiFeSt
from jaxfs.estimators.redundancy import CFS as CFS
from jaxfs.estimators.redundancy import CMIM as CMIM
from jaxfs.estimators.redundancy import FCBF as FCBF
from jaxfs.estimators.redundancy import JMI as JMI
from jaxfs.estimators.redundancy import MRMR as MRMR
from jaxfs.estimators.relief import ReliefF as ReliefF
from jaxfs.estimators.relief import RReliefF as RReliefF
from jaxfs.estimators.spectral import MCFS as MCFS
from jaxfs.estimators.spectral import SPEC as SPEC
from jaxfs.estimators.spectral import LaplacianScore as LaplacianScore
from jaxfs.estimators.ssfs import SSFS as SSFS
