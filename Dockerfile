# The service, and its private store when no ZOOMING_REDIS_URL is given:
#   docker build -t approx-zooming .
#   docker run -p 127.0.0.1:8000:8000 -e ZOOMING_ADMIN_KEY=… -v zooming:/data approx-zooming
# The Python is the one that constraints.txt is resolved under.

FROM python:3.11.15-slim-trixie AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv --without-pip /opt/zooming

# The dependencies are a layer of their own: a change of the code does not fetch them again.
COPY pyproject.toml constraints.txt ./
RUN python -c 'import tomllib; \
    print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
    > requirements.txt \
    && pip --python /opt/zooming install --only-binary :all: -c constraints.txt \
       -r requirements.txt

COPY LICENSE README.md ./
COPY loadtest loadtest
COPY service service
RUN pip --python /opt/zooming install --no-deps .


FROM python:3.11.15-slim-trixie
LABEL org.opencontainers.image.title="Approx-Zooming" \
      org.opencontainers.image.description="Picks the arm to play for a context and learns from late rewards" \
      org.opencontainers.image.licenses="MIT"
RUN install -d -m 0700 -o 10001 -g 10001 /data
COPY --from=build /opt/zooming /opt/zooming
# In a container only the port mapping says who may call, so every address is bound; the service
# refuses to start like that without ZOOMING_ADMIN_KEY.
ENV PATH=/opt/zooming/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ZOOMING_DATA=/data \
    ZOOMING_HOST=0.0.0.0 \
    ZOOMING_PORT=8000
USER 10001:10001
WORKDIR /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['ZOOMING_PORT'] + '/health/live', timeout=4)"]
CMD ["zooming", "serve"]
