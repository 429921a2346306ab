"""scikit-learn estimators for the methods of jaxfs."""

from jaxfs.estimators._catalogue import METHODS as METHODS
from jaxfs.estimators._catalogue import Method as Method
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
